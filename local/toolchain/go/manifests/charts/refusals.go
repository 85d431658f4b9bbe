package main

import (
	"errors"
	"regexp"
	"slices"
	"strings"
)

// ordered is a refusal by a schema that is the same each time. The validator walks maps, and says
// what it finds in the order in which it comes upon it.
func ordered(refused error) error {
	said := strings.Split(refused.Error(), "\n")
	return errors.New(strings.Join(inOrder(said), "\n"))
}

// finding is what the validator says about one place: a line, and what is below it further in.
var finding = regexp.MustCompile(`^( *)- at '`)

// inOrder puts findings that stand beside each other in the order of their text. Other lines, such as
// the name of the chart, stay where they are.
func inOrder(said []string) []string {
	var all []string
	for len(said) > 0 {
		depth, found := depthOf(said[0])
		if !found {
			all, said = append(all, said[0]), said[1:]
			continue
		}
		var beside [][]string
		for len(said) > 0 {
			if its, found := depthOf(said[0]); !found || its != depth {
				break
			}
			end := 1
			for end < len(said) {
				if its, found := depthOf(said[end]); !found || its <= depth {
					break
				}
				end++
			}
			one := append([]string{names(said[0])}, inOrder(said[1:end])...)
			beside, said = append(beside, one), said[end:]
		}
		slices.SortStableFunc(beside, slices.Compare)
		all = append(all, slices.Concat(beside...)...)
	}
	return all
}

func depthOf(line string) (depth int, found bool) {
	match := finding.FindStringSubmatch(line)
	if match == nil {
		return 0, false
	}
	return len(match[1]), true
}

var unknown = regexp.MustCompile(`^(.*: additional properties )('.*')( not allowed)$`)

// names puts the properties that a schema does not know in order.
func names(line string) string {
	match := unknown.FindStringSubmatch(line)
	if match == nil {
		return line
	}
	quoted := strings.Split(match[2], ", ")
	slices.Sort(quoted)
	return match[1] + strings.Join(quoted, ", ") + match[3]
}
