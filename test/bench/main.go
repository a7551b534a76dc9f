// Bench measures pilot-discovery as a process of its own, under clients that behave as Envoy does on delta ADS: how
// long a first sync takes and what it costs, and for each kind of change how soon the last client heard of it, what the
// server spent, and exactly what was sent. It prints a table and, with -json, the same as JSON. docs/performance.md
// says what the figures mean and how to repeat them.
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

func main() {
	binary := flag.String("server", "bin/pilot-discovery", "the pilot-discovery to measure")
	shapes := flag.String(
		"shapes",
		"100x5x100,1000x5x100,1000x5x100x50,1000x10x500,5000x5x50,5000x5x100",
		"services x endpoints x clients [x namespaces [/ Sidecars]], comma separated; Sidecars, one a namespace: policy, "+
			"refuse, all, most, own or ingress",
	)
	rounds := flag.Int("rounds", 40, "how many times each change is made")
	jsonPath := flag.String("json", "", "also write the results to this file")
	keep := flag.String("scratch", "", "folder for rules and logs (default: a temporary one, removed at the end)")
	profiles := flag.String("profiles", "", "folder to write CPU and heap profiles of the server to; taking them disturbs the figures")
	limit := flag.Duration("limit", 10*time.Minute, "bound on one shape")
	flag.Parse()
	if err := measure(*binary, *shapes, *rounds, *jsonPath, *keep, *profiles, *limit); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func measure(binary, shapes string, rounds int, jsonPath, scratch, profiles string, limit time.Duration) error {
	if scratch == "" {
		dir, err := os.MkdirTemp("", "fairway-bench-")
		if err != nil {
			return err
		}
		defer os.RemoveAll(dir)
		scratch = dir
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	var results []result
	for _, text := range strings.Split(shapes, ",") {
		s, err := parseShape(text)
		if err != nil {
			return err
		}
		dir := filepath.Join(scratch, strings.ReplaceAll(strings.TrimSpace(text), "/", "-"))
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return err
		}
		b := &bench{binary: binary, scratch: dir, rounds: rounds, profiles: profiles, rules: rules{filepath.Join(dir, "rules"), s}}
		bounded, cancel := context.WithTimeout(ctx, limit)
		res, err := b.run(bounded)
		cancel()
		if err != nil {
			return fmt.Errorf("%s: %w", s, err)
		}
		results = append(results, res)
		print(res)
	}
	if jsonPath == "" {
		return nil
	}
	text, err := json.MarshalIndent(results, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(jsonPath, append(text, '\n'), 0o644)
}

func parseShape(text string) (shape, error) {
	s := shape{Namespaces: 1}
	text, form, _ := strings.Cut(strings.TrimSpace(text), "/")
	if _, known := sidecars[form]; form != "" && !known {
		return s, fmt.Errorf(
			"shape %q: no such Sidecars %q: want one of %s",
			text,
			form,
			strings.Join(slices.Sorted(maps.Keys(sidecars)), ", "),
		)
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
	w := tabwriter.NewWriter(os.Stdout, 2, 8, 2, ' ', 0)
	fmt.Fprintf(w, "  cold start to first synced client\t%.0f ms\t%.0f MB\n", r.FirstMS, r.FirstMB)
	fmt.Fprintf(
		w,
		"  all clients synced\t%.0f ms\t%.2f s CPU (%.2f s since start)\t%.0f KB a client\n",
		r.SyncMS,
		r.SyncCPU,
		r.TotalCPU,
		float64(r.SyncBytes)/1000,
	)
	fmt.Fprintf(w, "  memory after sync / peak\t%.0f / %.0f MB\n", r.RSS, r.Peak)
	for _, c := range r.Changes {
		fmt.Fprintf(
			w,
			"  %s\tlast %.1f ms (p99 %.1f)\t%.2f ms CPU\t%.0f B, %.1f resources a client\t%.0f rows\n",
			c.Name,
			c.LastMS,
			c.LastP99,
			c.CPU*1000,
			c.Bytes,
			c.Resources,
			c.Rows,
		)
	}
	if r.Restart != nil {
		fmt.Fprintf(
			w,
			"  restart, nothing changed\tall back %.0f ms\t%.2f s CPU\t%d resources, %d B in all\n",
			r.Restart.SyncMS,
			r.Restart.CPU,
			r.Restart.Resources,
			r.Restart.Bytes,
		)
	}
	w.Flush()
}
