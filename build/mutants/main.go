package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	var o options
	flag.IntVar(&o.n, "n", 40, "number of mutants")
	flag.Uint64Var(&o.seed, "seed", 1, "which mutants are drawn; the same seed draws the same from the same tree")
	flag.StringVar(&o.tests, "tests", "", "packages with the tests to run, separated by spaces (default: those that are mutated)")
	flag.StringVar(&o.at, "at", "", "all mutants of one place, FILE:LINE or FILE, in place of random ones")
	flag.DurationVar(&o.bound, "timeout", 0,
		"time that the tests of one mutant may take; 0: five times what they take without one, and a minute")
	flag.BoolVar(&o.short, "short", false, "run the tests with -short")
	flag.BoolVar(&o.verbose, "v", false, "print the killed mutants too")
	flag.Usage = func() {
		fmt.Fprintln(flag.CommandLine.Output(), "usage: mutants [flags] PACKAGES")
		flag.PrintDefaults()
	}
	flag.Parse()
	o.packages = flag.Args()
	if err := run(ctx, o, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "mutants:", err)
		os.Exit(1)
	}
}

type options struct {
	packages       []string
	tests          string
	at             string
	n              int
	seed           uint64
	bound          time.Duration
	short, verbose bool
}

// maxMemory bounds each process that a mutant starts: a loop that no longer ends must not take the machine's memory.
const maxMemory = 8 << 30

func run(ctx context.Context, o options, out io.Writer) error {
	if len(o.packages) == 0 {
		return errors.New("no packages are given, for example ./internal/door")
	}
	all, err := allSites(ctx, o)
	if err != nil {
		return err
	}
	if err := limitMemory(); err != nil {
		return fmt.Errorf("limit memory: %w", err)
	}
	dir, err := os.MkdirTemp("", "mutants")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	l := lab{options: o, dir: dir}
	took, err := l.first(ctx)
	if err != nil {
		return err
	}
	if l.bound == 0 {
		l.bound = 5*took + time.Minute
	}
	fmt.Fprintf(out, "%d places for mistakes; the tests take %v without one, and at most %v with one\n",
		len(all), took.Round(time.Second), l.bound.Round(time.Second))
	return l.measure(ctx, all, out)
}

// limitMemory limits this process and all that it starts.
func limitMemory() error {
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_DATA, &limit); err != nil {
		return err
	}
	limit.Cur = min(limit.Max, maxMemory)
	return syscall.Setrlimit(syscall.RLIMIT_DATA, &limit)
}

// measure tries the sites in their order, and reports.
func (l *lab) measure(ctx context.Context, all []site, out io.Writer) error {
	wanted := len(all)
	if l.at == "" {
		wanted = l.n
	}
	count := map[result]int{}
	for _, s := range all {
		if count[killed]+count[survived]+count[late] == wanted {
			break
		}
		r, err := l.try(ctx, s)
		if ctx.Err() != nil {
			break // what was measured until now is reported
		}
		if err != nil {
			return err
		}
		count[r]++
		if r == survived || l.verbose && r != invalid {
			fmt.Fprintf(out, "%s  %v\n", r, s)
		}
	}
	total := count[killed] + count[late] + count[survived]
	if total == 0 && ctx.Err() == nil {
		return errors.New("there is nothing to mutate")
	}
	fmt.Fprintf(out, "%d of %d mutants killed (%d %%), %d of these by time; %d more do not compile; seed %d\n",
		count[killed]+count[late], total, 100*(count[killed]+count[late])/max(total, 1), count[late], count[invalid], l.seed)
	return ctx.Err()
}

// allSites returns the sites of the packages' files: those of one place, or all in random order.
func allSites(ctx context.Context, o options) ([]site, error) {
	list := exec.CommandContext(ctx, "go", append([]string{"list", "-json=Dir,GoFiles"}, o.packages...)...)
	list.Stderr = os.Stderr
	data, err := list.Output()
	if err != nil {
		return nil, fmt.Errorf("go list: %w", err)
	}
	here, err := os.Getwd()
	if err != nil {
		return nil, err
	}
	var all []site
	for d := json.NewDecoder(bytes.NewReader(data)); ; {
		var p struct {
			Dir     string
			GoFiles []string
		}
		if err := d.Decode(&p); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			return nil, err
		}
		if strings.HasSuffix(p.Dir, "test") {
			continue // what only tests import
		}
		for _, name := range p.GoFiles {
			found, err := fileSites(here, filepath.Join(p.Dir, name))
			if err != nil {
				return nil, err
			}
			all = append(all, found...)
		}
	}
	if o.at != "" {
		return placed(all, o.at)
	}
	rng := rand.New(rand.NewPCG(o.seed, 0))
	rng.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	return all, nil
}

func fileSites(here, path string) ([]site, error) {
	src, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	name, err := filepath.Rel(here, path)
	if err != nil {
		return nil, err
	}
	return sites(name, src)
}

// placed returns the sites of FILE:LINE, or of FILE.
func placed(all []site, at string) (out []site, err error) {
	file, text, ofLine := strings.Cut(at, ":")
	line := 0
	if ofLine {
		if line, err = strconv.Atoi(text); err != nil {
			return nil, fmt.Errorf("-at %s: %q is not a line; write FILE:LINE", at, text)
		}
	}
	for _, s := range all {
		if s.file == filepath.Clean(file) && (!ofLine || s.line == line) {
			out = append(out, s)
		}
	}
	if len(out) == 0 {
		return nil, fmt.Errorf("-at %s: there is nothing to mutate in the given packages", at)
	}
	return out, nil
}
