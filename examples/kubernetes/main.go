// Command kubernetes shows a mesh in a Kubernetes cluster at work: `make demo-kubernetes`.
//
// It starts etcd, a real API server and its controllers, pilot-discovery beside them, and the bookshop as Deployments. The webhook
// injects their pods. Pods are processes of this machine in namespaces of their own, each with an agent and an Envoy; the small
// kubelet of the tests runs them. The program then sends real requests, changes rules by the API, replaces pods and a certificate
// under load, kills the control plane and the API server, and prints the result of each.
//
// It needs root, for namespaces. It cannot be reached from outside of this machine, and everything it starts ends with it. With a
// terminal the cluster stays up until Ctrl-C, and the kubectl command line for it is printed. With --once it ends by itself; the
// exit code is not 0 if a result is not as expected.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"fairway/test/platform/kube/kubelet"
	"fairway/test/platform/pods/world"
)

func main() {
	kubelet.Enter()
	testing.Init() // parts of the tests ask for its flags, which are none of this program's
	flags := flag.NewFlagSet("demo-kubernetes", flag.ExitOnError)
	once := flags.Bool("once", false, "leave when everything has been shown; the exit code says whether it went well")
	if errors.Join(flag.CommandLine.Parse(nil), flags.Parse(os.Args[1:])) != nil {
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	os.Exit(run(ctx, *once || !isTerminal(os.Stdout)))
}

func run(ctx context.Context, once bool) int {
	s := &stage{ctx: ctx}
	s.play(func() {
		s.Cleanup(func() {
			for _, p := range world.Programs {
				if built := p.Built(); built != "" {
					os.RemoveAll(filepath.Dir(built))
				}
			}
		})
		begun := time.Now()
		fmt.Println("building the programs, and starting etcd, the API server, its controllers and pilot-discovery")
		d := demo{world.Start(s), s}
		fmt.Printf("the cluster is up, and its webhook is asked, after %s\n", since(begun))
		for _, show := range d.shows() {
			fmt.Printf("\n%s\n", show.name)
			show.run()
			if s.Failed() || ctx.Err() != nil {
				return
			}
		}
		if !once {
			fmt.Printf("\nThe cluster stays up until Ctrl-C. Its API server is in a network namespace:\n  nsenter --net=/proc/%d/ns/net "+
				"kubectl --kubeconfig %s get pods -A\n", d.PlanePid(), d.Kubeconfig(s, nil, "you", "system:masters"))
			<-ctx.Done()
		}
	})
	switch {
	case ctx.Err() != nil:
		return 130
	case s.skipped != "":
		fmt.Fprintln(os.Stderr, "demo:", s.skipped)
		return 1
	case s.Failed():
		for _, why := range s.why {
			fmt.Fprintln(os.Stderr, "demo: not as it should be:", why)
		}
		return 1
	}
	return 0
}

func since(t time.Time) time.Duration { return time.Since(t).Round(time.Millisecond) }

func isTerminal(f *os.File) bool {
	_, err := unix.IoctlGetTermios(int(f.Fd()), unix.TCGETS)
	return err == nil
}
