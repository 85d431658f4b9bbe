// pause is the container that holds a pod's namespaces open.
//
// It waits to be stopped and reaps the orphans that end up with it where the pod's
// processes share one PID namespace. Same job as Kubernetes' own pause, which is
// written in C; this one needs no C compiler.
package main

import (
	"os"
	"os/signal"
	"syscall"
)

func main() {
	stop := make(chan os.Signal, 1)
	signal.Notify(stop, syscall.SIGINT, syscall.SIGTERM)
	orphan := make(chan os.Signal, 1)
	signal.Notify(orphan, syscall.SIGCHLD)
	for {
		select {
		case <-stop:
			return
		case <-orphan:
			reap()
		}
	}
}

// reap collects every child that has ended: one SIGCHLD can stand for several.
func reap() {
	for {
		pid, err := syscall.Wait4(-1, nil, syscall.WNOHANG, nil)
		if err == syscall.EINTR {
			continue
		}
		if pid <= 0 {
			return
		}
	}
}
