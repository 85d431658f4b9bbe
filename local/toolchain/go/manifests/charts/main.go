// Charts renders Helm charts, many in one process: a request a line of JSON in, an answer a line
// out, in the order in which they are ready. It calls the packages that `helm template` calls, so
// objects and refusals are Helm's own; what it saves is a process, a chart read from disk and a
// schema compiled for each release.
//
// It ends with its input. What it cannot read as a request ends it with an error, because whoever
// wrote that would wait for an answer for ever.
package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"log/slog"
	"os"
	"os/signal"
	"runtime"
	"sync"
)

// request is one chart to render.
type request struct {
	ID          int64           `json:"id"`
	Chart       string          `json:"chart"`
	Name        string          `json:"name"`
	Namespace   string          `json:"namespace"`
	KubeVersion string          `json:"kubeVersion"`
	Values      json.RawMessage `json:"values"`
}

func main() {
	// Ctrl-C reaches the whole group of processes: who started this one decides, and closes its input.
	signal.Ignore(os.Interrupt)
	// Remarks about values that a chart does not expect; `helm template` has them beside its output.
	log.SetOutput(io.Discard)
	slog.SetDefault(slog.New(slog.DiscardHandler))
	if err := serve(os.Stdin, os.Stdout, runtime.GOMAXPROCS(0)); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// serve answers every request, as many at once as there are workers; no more are read before they
// are taken, so that memory does not grow with their number.
func serve(in io.Reader, out io.Writer, workers int) error {
	requests := make(chan request)
	answers := &lines{out: out}
	charts := newLibrary()
	var running sync.WaitGroup
	for range workers {
		running.Go(func() {
			for wanted := range requests {
				answers.write(answer(charts, wanted))
			}
		})
	}
	err := read(in, requests)
	close(requests)
	running.Wait()
	return errors.Join(err, answers.err)
}

func read(in io.Reader, requests chan<- request) error {
	reader := bufio.NewReaderSize(in, 1<<16)
	for number := 1; ; number++ {
		line, err := reader.ReadBytes('\n')
		if len(line) > 0 {
			var wanted request
			if err := json.Unmarshal(line, &wanted); err != nil {
				return fmt.Errorf("line %d is no request: %w", number, err)
			}
			requests <- wanted
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// answer is the line for a request: its objects, or why there are none.
func answer(charts *library, wanted request) []byte {
	var line bytes.Buffer
	fmt.Fprintf(&line, `{"id":%d,`, wanted.ID)
	start := line.Len()
	line.WriteString(`"objects":`)
	if err := attempt(charts, wanted, &line); err != nil {
		line.Truncate(start)
		text, _ := json.Marshal(err.Error()) // of a string: there is no error
		line.WriteString(`"error":`)
		line.Write(text)
	}
	line.WriteString("}\n")
	return line.Bytes()
}

// attempt renders; a panic in a chart's template functions is that chart's refusal.
func attempt(charts *library, wanted request, out *bytes.Buffer) (err error) {
	defer func() {
		if found := recover(); found != nil {
			err = fmt.Errorf("rendering stopped: %v", found)
		}
	}()
	manifests, err := charts.render(wanted)
	if err != nil {
		return err
	}
	return writeObjects(manifests, out)
}

// lines writes whole lines for many writers. The first error stays.
type lines struct {
	lock sync.Mutex
	out  io.Writer
	err  error
}

func (l *lines) write(line []byte) {
	l.lock.Lock()
	defer l.lock.Unlock()
	if l.err == nil {
		_, l.err = l.out.Write(line)
	}
}
