// Command demo shows a small mesh at work: `make demo`, and with --consul `make demo-consul`.
//
// It starts pilot-discovery on a copy of examples/bookinfo/rules, two Envoy sidecars and an ingress gateway through pilot-agent, and the
// bookshop's services. It sends real requests and prints the effect of each rule. Then it changes a rule on disk and measures how soon
// the traffic follows. It listens on loopback only, needs no root, and writes only below the checkout's .demo folder.
//
// With a terminal the mesh stays up until Ctrl-C. With --once it ends
// by itself; the exit code is not 0 if a result differs from the rules.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"fairway/build/consulbin"
	"fairway/build/envoybin"
)

// startTimeout bounds the time until the mesh serves its first request: generous, for a machine that compiles meanwhile.
const startTimeout = 60 * time.Second

// showTimeout bounds all requests together.
const showTimeout = 2 * time.Minute

func main() {
	once := flag.Bool("once", false, "leave when everything has been shown; the exit code says whether it went as the rules say")
	inConsul := flag.Bool("consul", false, "register the bookshop in a Consul of the demo's own: `make demo-consul`")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	err := run(ctx, *once, *inConsul)
	interrupted := ctx.Err() != nil
	stop()
	switch {
	case err == nil:
	case interrupted:
		os.Exit(130)
	default:
		fmt.Fprintln(os.Stderr, "demo:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, once, inConsul bool) (err error) {
	root, err := envoybin.Root()
	if err != nil {
		return err
	}
	envoy, err := envoybin.Obtain(ctx, os.Stderr)
	if err != nil {
		return err
	}
	consul := ""
	if inConsul {
		if consul, err = consulbin.Obtain(ctx, os.Stderr); err != nil {
			return err
		}
	}
	base := filepath.Join(root, ".demo")
	if err := os.MkdirAll(base, 0o755); err != nil {
		return fmt.Errorf("make the demo's folder: %w", err)
	}
	dir, err := os.MkdirTemp(base, "run-")
	if err != nil {
		return fmt.Errorf("make the demo's folder: %w", err)
	}
	w := &world{
		root: root, bin: filepath.Join(root, "bin"), service: filepath.Join(base, "bin", "service"), envoy: envoy, consul: consul, dir: dir,
	}
	defer func() {
		w.stop()
		if err == nil || ctx.Err() != nil {
			os.RemoveAll(dir)
		} else {
			fmt.Fprintf(os.Stderr, "demo: logs and rules are kept in %s\n", dir)
		}
	}()
	return w.show(ctx, once)
}

// show starts the mesh and runs every show. On a terminal, unless --once is given, it then waits for Ctrl-C.
func (w *world) show(ctx context.Context, once bool) error {
	if err := w.start(ctx); err != nil {
		return err
	}
	bounded, cancel := context.WithTimeout(ctx, showTimeout)
	defer cancel()
	failed := w.runShows(bounded, os.Stdout)
	if ctx.Err() != nil || once || !isTerminal(os.Stdout) {
		return failed
	}
	if failed != nil {
		fmt.Println("\nnot as the rules say:", failed)
	}
	fmt.Print(w.invitation())
	<-ctx.Done()
	fmt.Println("\nstopping")
	return nil
}

func isTerminal(f *os.File) bool {
	_, err := unix.IoctlGetTermios(int(f.Fd()), unix.TCGETS)
	return err == nil
}
