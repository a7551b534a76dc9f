// Bench measures pilot-discovery as a process of its own, under clients that behave as Envoy does on delta ADS: how
// long a first sync takes and how much it costs, and for each kind of change how soon the last client received it, how
// much the server spent, and how many resources and bytes were sent. It prints a table and, with -json, the same as
// JSON. docs/performance.md explains the figures and how to repeat them.
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"text/tabwriter"
	"time"
)

// options are what the command line says.
type options struct {
	binary, against         string
	questions               string
	shapes                  string
	rounds, times           int
	json, scratch, profiles string
	limit                   time.Duration
	sizing                  bool
}

func main() {
	var o options
	flag.StringVar(&o.binary, "server", "bin/pilot-discovery", "the pilot-discovery to measure")
	flag.StringVar(&o.against, "against", "", "an older pilot-discovery, which is measured in turn with it and printed beside it")
	flag.IntVar(&o.times, "times", 0, "how many times each shape is run, of which the median is printed (default: 1, and 3 with -against)")
	flag.StringVar(&o.shapes, "shapes",
		"100x5x100,1000x5x100,1000x5x100x10,1000x5x100x50,1000x10x500,5000x5x50,5000x5x50x10,5000x5x100",
		"services x endpoints x clients [x namespaces [/ Sidecars]], comma separated; Sidecars, one a namespace: policy, "+
			"refuse, all, most, own or ingress")
	flag.StringVar(&o.questions, "questions", "5000x5x10000x100",
		"the shape at which questions are asked, of the first server alone; empty: none are")
	flag.IntVar(&o.rounds, "rounds", 40, "how many times each change is made")
	flag.StringVar(&o.json, "json", "", "also write the results to this file")
	flag.StringVar(&o.scratch, "scratch", "", "folder for rules and logs (default: a temporary one, removed at the end)")
	flag.StringVar(&o.profiles, "profiles", "", "folder to write CPU and heap profiles of the server to; taking them disturbs the figures")
	flag.DurationVar(&o.limit, "limit", 10*time.Minute, "bound on one run of a shape")
	flag.BoolVar(&o.sizing, "sizing", false, "print the tables of docs/operate/sizing.md; by default with the shapes "+sizingShapes+
		", 5 rounds and no questions")
	flag.Parse()
	if o.sizing {
		o.forSizing()
	}
	if err := measure(o); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

// forSizing changes the defaults to those of -sizing.
func (o *options) forSizing() {
	given := map[string]bool{}
	flag.Visit(func(f *flag.Flag) { given[f.Name] = true })
	for name, set := range map[string]func(){
		"shapes": func() { o.shapes = sizingShapes }, "rounds": func() { o.rounds = 5 }, "questions": func() { o.questions = "" },
	} {
		if !given[name] {
			set()
		}
	}
}

func measure(o options) error {
	if o.scratch == "" {
		dir, err := os.MkdirTemp("", "fairway-bench-")
		if err != nil {
			return err
		}
		defer os.RemoveAll(dir)
		o.scratch = dir
	}
	binaries := []string{o.binary}
	if o.against != "" {
		binaries = append(binaries, o.against)
	}
	if o.times == 0 {
		o.times = 2*len(binaries) - 1
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	var results []any // a result each, and an asking
	var sized []result
	for _, text := range strings.FieldsFunc(o.shapes, func(r rune) bool { return r == ',' }) {
		s, err := parseShape(text)
		if err != nil {
			return err
		}
		all, err := alternate(o.times, func(binary string) (result, error) { return o.run(ctx, binary, text, s) }, binaries...)
		if err != nil {
			return fmt.Errorf("%s: %w", s, err)
		}
		if o.against != "" {
			all[0].Against = &all[1]
		}
		results, sized = append(results, all[0]), append(sized, all[0])
		print(all[0])
	}
	if o.sizing {
		printSizing(os.Stdout, sized)
	}
	if o.questions != "" {
		s, err := parseShape(o.questions)
		if err != nil {
			return err
		}
		asked, err := o.interrogate(ctx, s)
		if err != nil {
			return fmt.Errorf("questions at %s: %w", s, err)
		}
		printAsking(os.Stdout, asked)
		results = append(results, asked)
	}
	if o.json == "" {
		return nil
	}
	text, err := json.MarshalIndent(results, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(o.json, append(text, '\n'), 0o644)
}

// run measures one program once, with files of its own.
func (o options) run(ctx context.Context, binary, text string, s shape) (result, error) {
	dir, err := os.MkdirTemp(o.scratch, strings.ReplaceAll(strings.TrimSpace(text), "/", "-")+"-")
	if err != nil {
		return result{}, err
	}
	b := &bench{binary: binary, scratch: dir, rounds: o.rounds, profiles: o.profiles, rules: rules{filepath.Join(dir, "rules"), s}}
	bounded, cancel := context.WithTimeout(ctx, o.limit)
	defer cancel()
	return b.run(bounded)
}

func parseShape(text string) (shape, error) {
	s := shape{Namespaces: 1}
	text, form, _ := strings.Cut(strings.TrimSpace(text), "/")
	if _, known := sidecars[form]; form != "" && !known {
		return s, fmt.Errorf("shape %q: no such Sidecars %q: want one of %s", text, form,
			strings.Join(slices.Sorted(maps.Keys(sidecars)), ", "))
	}
	s.Sidecars = form
	fields := strings.Split(text, "x")
	targets := []*int{&s.Services, &s.Endpoints, &s.Clients, &s.Namespaces}
	if len(fields) < 3 || len(fields) > len(targets) {
		return s, fmt.Errorf("shape %q: want services x endpoints x clients [x namespaces], as 1000x5x100", text)
	}
	for i, f := range fields {
		if _, err := fmt.Sscanf(f, "%d", targets[i]); err != nil || *targets[i] < 1 {
			return s, fmt.Errorf("shape %q: %q is not a positive number", text, f)
		}
	}
	return s, nil
}

func print(r result) {
	fmt.Printf("\n%s (%d objects in files)\n", r.Shape, r.Objects)
	if r.Against != nil {
		compare(os.Stdout, r, *r.Against)
		return
	}
	w := tabwriter.NewWriter(os.Stdout, 2, 8, 2, ' ', 0)
	fmt.Fprintf(w, "  cold start to first synced client\t%.0f ms\t%.0f MB\n", r.FirstMS, r.FirstMB)
	fmt.Fprintf(w, "  all clients synced\t%.0f ms\t%.2f s CPU (%.2f s since start)\t%.0f KB a client\n", r.SyncMS, r.SyncCPU,
		r.TotalCPU, float64(r.SyncBytes)/1000)
	fmt.Fprintf(w, "  memory after sync / peak\t%.0f (%.0f of the program's file) / %.0f MB\n", r.RSS, r.File, r.Peak)
	for _, c := range r.Changes {
		fmt.Fprintf(w, "  %s\tlast %.1f ms (p99 %.1f)\t%.2f ms CPU\t%.0f B, %.1f resources a client\t%.0f rows\n", c.Name,
			c.LastMS, c.LastP99, c.CPU*1000, c.Bytes, c.Resources, c.Rows)
	}
	if r.Restart != nil {
		fmt.Fprintf(w, "  restart, nothing changed\tall back %.0f ms\t%.2f s CPU\t%d resources, %d B in all\n", r.Restart.SyncMS,
			r.Restart.CPU, r.Restart.Resources, r.Restart.Bytes)
	}
	w.Flush()
}
