// Way measures how long the way of a change is: how many rooms, files, functions and lines run from the change until a connected proxy has
// acknowledged its result. It builds the walker with coverage counters, has it make each change several times in one process with the whole
// control plane, and counts the code that ran each time: code that ran only sometimes (metrics, audits, timers) is not a part of the way.
//
// A goroutine that waits when the counters are cleared, and goes on, is not counted up to its next branch.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"text/tabwriter"

	"fairway/build/envoybin"
)

func main() {
	rounds := flag.Int("rounds", defaultRounds, "how many times each change is made")
	list := flag.Bool("v", false, "list the functions that ran, by file")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, *rounds, *list, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "way:", err)
		os.Exit(1)
	}
}

const defaultRounds = 5

func run(ctx context.Context, rounds int, list bool, out io.Writer) error {
	root, err := envoybin.Root()
	if err != nil {
		return err
	}
	ways, err := measure(ctx, root, rounds)
	if err != nil {
		return err
	}
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(w, "way\t\trooms\tfiles\tfunctions\tlines\tlines of files\t")
	for _, x := range ways {
		for _, p := range parts {
			f := x.parts[p]
			fmt.Fprintf(w, "%s\t%s\t%d\t%d\t%d\t%d\t%d\t\n", x.name, p, f.Rooms, f.Files, f.Functions, f.Lines, f.Whole)
		}
	}
	if err := w.Flush(); err != nil || !list {
		return err
	}
	for _, x := range ways {
		fmt.Fprintf(out, "\n%s\n", x.name)
		for _, f := range x.functions {
			fmt.Fprintln(out, "  "+f)
		}
	}
	return nil
}

// way is the code that ran for one change.
type way struct {
	name      string
	parts     map[string]figures
	functions []string // that ran, as FILE: FUNCTION, in order
}

// The changes that the walker makes: the names of its folders, and their names in the figures.
var changes = []struct{ folder, name string }{
	{"endpoint", "an endpoint, from a source of code"},
	{"route", "a route edited in a file"},
	{"policy", "an AuthorizationPolicy changed in a cluster"},
	{"consul", "an instance that joins in Consul"},
}

// measure builds the walker, runs it, and reads its output. root is the folder of this module.
func measure(ctx context.Context, root string, rounds int) ([]way, error) {
	dir, err := os.MkdirTemp("", "fairway-way-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	program, counters := filepath.Join(dir, "walker"), filepath.Join(dir, "counters")
	command := func(args ...string) error {
		c := exec.CommandContext(ctx, args[0], args[1:]...)
		c.Dir, c.Env = root, append(os.Environ(), "GOCOVERDIR="+dir)
		if out, err := c.CombinedOutput(); err != nil {
			return fmt.Errorf("%s: %w\n%s", args[0], err, out)
		}
		return nil
	}
	const walker = "fairway/test/way/walker" // where the main package is not instrumented, counters cannot be cleared
	err = command("go", "build", "-cover", "-covermode=atomic", "-coverpkg="+rooms+"...,"+walker, "-o", program, walker)
	if err != nil {
		return nil, err
	}
	if err := command(program, "-out", counters, "-rounds", strconv.Itoa(rounds)); err != nil {
		return nil, err
	}
	var ways []way
	for _, change := range changes {
		var always blocks
		for round := range rounds {
			profile := filepath.Join(dir, "profile")
			in := filepath.Join(counters, change.folder, strconv.Itoa(round))
			if err := command("go", "tool", "covdata", "textfmt", "-i="+in, "-o="+profile); err != nil {
				return nil, err
			}
			text, err := os.ReadFile(profile)
			if err != nil {
				return nil, err
			}
			ran, err := parse(string(text))
			if err != nil {
				return nil, err
			}
			always = always.and(ran)
		}
		w, err := count(root, change.name, always)
		if err != nil {
			return nil, err
		}
		ways = append(ways, w)
	}
	return ways, nil
}
