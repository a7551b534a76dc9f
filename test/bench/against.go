package main

import (
	"fmt"
	"io"
	"os"
	"slices"
	"text/tabwriter"
)

// figure is one measured number.
type figure struct {
	name string
	of   *float64
}

// figures lists the numbers of a result that differ between runs. Middle writes medians to them.
func (r *result) figures() []figure {
	list := []figure{
		{"ready, ms", &r.ReadyMS},
		{"cold start to first synced client, ms", &r.FirstMS},
		{"memory after first client, MB", &r.FirstMB},
		{"all clients synced, ms", &r.SyncMS},
		{"all clients synced, s CPU", &r.SyncCPU},
		{"since start, s CPU", &r.TotalCPU},
		{"memory after sync, MB", &r.RSS},
		{"of it the program's file, MB", &r.File},
		{"memory at its peak, MB", &r.Peak},
	}
	for i := range r.Changes {
		c := &r.Changes[i]
		list = append(list, []figure{
			{c.Name + ": last client, ms", &c.LastMS},
			{c.Name + ": last client, p99, ms", &c.LastP99},
			{c.Name + ": s CPU", &c.CPU},
			{c.Name + ": bytes a client", &c.Bytes},
			{c.Name + ": resources a client", &c.Resources},
			{c.Name + ": rows", &c.Rows},
		}...)
	}
	if r.Restart != nil {
		list = append(list, figure{"restart: all back, ms", &r.Restart.SyncMS}, figure{"restart: s CPU", &r.Restart.CPU})
	}
	return list
}

// middle is the median of several runs of one shape, figure by figure.
func middle(runs []result) result {
	out := runs[0]
	out.Changes = slices.Clone(out.Changes)
	if out.Restart != nil {
		again := *out.Restart
		out.Restart = &again
	}
	for i, f := range out.figures() {
		samples := make([]float64, 0, len(runs))
		for r := range runs {
			samples = append(samples, *runs[r].figures()[i].of)
		}
		*f.of = quantile(samples, 0.5)
	}
	return out
}

// compare prints the figures of two programs beside each other, with the ratio of the first to the second.
func compare(to io.Writer, now, before result) {
	old := map[string]float64{}
	for _, f := range before.figures() {
		old[f.name] = *f.of
	}
	w := tabwriter.NewWriter(to, 2, 8, 2, ' ', 0)
	fmt.Fprintln(w, "  FIGURE\tSERVER\tAGAINST\tRATIO")
	for _, f := range now.figures() {
		was, known := old[f.name]
		if !known {
			continue
		}
		ratio := "-"
		if was != 0 {
			ratio = fmt.Sprintf("%.2f", *f.of/was)
		}
		fmt.Fprintf(w, "  %s\t%.4g\t%.4g\t%s\n", f.name, *f.of, was, ratio)
	}
	w.Flush()
}

// alternate runs one shape with each program in turn, the given number of times. Every second time the other program is first, so that
// the machine's other work slows down both alike.
func alternate(times int, run func(binary string) (result, error), binaries ...string) ([]result, error) {
	runs := make([][]result, len(binaries))
	for n := range times {
		for i := range binaries {
			at := i
			if n%2 == 1 {
				at = len(binaries) - 1 - i
			}
			r, err := run(binaries[at])
			if err != nil {
				return nil, fmt.Errorf("%s: %w", binaries[at], err)
			}
			runs[at] = append(runs[at], r)
			fmt.Fprintf(os.Stderr, "%s, run %d of %d: %s\n", r.Shape, n+1, times, binaries[at])
		}
	}
	out := make([]result, len(binaries))
	for i := range runs {
		out[i] = middle(runs[i])
	}
	return out, nil
}
