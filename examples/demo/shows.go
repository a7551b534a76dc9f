package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"strconv"
	"time"
)

// show tries one rule with real requests. It prints the results and fails if they differ from the rule.
type show struct {
	name string
	run  func(ctx context.Context, w *world, out io.Writer) error
}

// shows in the order they are run; the edit comes last, for it changes the rules of the ones before.
func (w *world) shows() []show {
	all := []show{
		{"90/10 split", showSplit},
		{"header route", showHeader},
		{"fault", showFault},
		{"retry", showRetry},
		{"mutual TLS", showMutual},
		{"hot restart", showHotRestart},
		{"certificates", showRotation},
	}
	if w.consul != "" {
		all = append(all, show{"Consul", showConsul})
	}
	return append(all, show{"edit on disk", showEdits})
}

// runShows runs all shows, also after one failed, and joins the errors.
func (w *world) runShows(ctx context.Context, out io.Writer) error {
	fmt.Fprintf(out, "pilot-discovery, 2 sidecars, 1 ingress gateway and 6 services: up in %s\n", w.took.Round(time.Millisecond))
	var errs []error
	for _, s := range w.shows() {
		fmt.Fprintf(out, "\n%s\n", s.name)
		if err := s.run(ctx, w, out); err != nil {
			fmt.Fprintf(out, "  WRONG: %v\n", err)
			errs = append(errs, fmt.Errorf("%s: %w", s.name, err))
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
	}
	return errors.Join(errs...)
}

// showSplit sends requests without end-user, so the canary route's weights decide.
func showSplit(ctx context.Context, w *world, out io.Writer) error {
	const n, share = 500, 0.10
	got, err := w.visits(ctx, n, nil, page.reviews)
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "  %d requests: reviews v1 answered %d (%.1f %%), v3 %d (%.1f %%)\n", n, got["v1"], percent(got["v1"], n),
		got["v3"], percent(got["v3"], n))
	if got["v1"]+got["v3"] != n {
		return fmt.Errorf("not all pages came with reviews of v1 or v3: %v", got)
	}
	if low, high := likely(n, share); got["v3"] < low || got["v3"] > high {
		return fmt.Errorf("%d of v3 is not within %d to %d, where all but one run in a million end", got["v3"], low, high)
	}
	return nil
}

// likely bounds a binomial count: five standard deviations to either side of its mean.
func likely(n int, share float64) (low, high int) {
	mean := float64(n) * share
	deviation := 5 * math.Sqrt(mean*(1-share))
	return int(math.Floor(mean - deviation)), int(math.Ceil(mean + deviation))
}

func percent(part, whole int) float64 { return 100 * float64(part) / float64(whole) }

var jason = map[string]string{"end-user": "jason"}

// as is jason asking for one of the rules of ratings.yaml.
func as(demo string) map[string]string { return map[string]string{"end-user": "jason", "x-demo": demo} }

func showHeader(ctx context.Context, w *world, out io.Writer) error {
	const n = 50
	got, err := w.visits(ctx, n, jason, page.reviews)
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "  %d requests with end-user: jason: reviews v2 answered %d\n", n, got["v2"])
	if got["v2"] != n {
		return fmt.Errorf("jason was served by %v", got)
	}
	return nil
}

// showFault: the second sidecar holds requests for ratings back for 200 ms and answers them with 418 itself.
func showFault(ctx context.Context, w *world, out io.Writer) error {
	began := time.Now()
	p, err := w.visit(ctx, as("fault"))
	if err != nil {
		return err
	}
	took := time.Since(began)
	fmt.Fprintf(out, "  x-demo: fault: ratings answered %d after %s; the page came all the same (status %d)\n", p.ratings(),
		took.Round(time.Millisecond), p.Status)
	switch {
	case p.Status != 200 || p.ratings() != 418:
		return fmt.Errorf("want a page with status 200 and ratings with 418, got %d and %d (%s)", p.Status, p.ratings(), p.Error)
	case took < 190*time.Millisecond || took > 2*time.Second: // Envoy counts from when its loop last looked at the clock
		return fmt.Errorf("want an answer delayed by 200 ms, it took %s", took)
	}
	return nil
}

// showRetry: the flaky instance fails two of every three requests, with and without a retry in between.
func showRetry(ctx context.Context, w *world, out io.Writer) error {
	const n = 30
	status := func(p page) string { return strconv.Itoa(p.ratings()) }
	without, err := w.visits(ctx, n, as("flaky"), status)
	if err != nil {
		return err
	}
	with, err := w.visits(ctx, n, as("retry"), status)
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "  ratings told to fail 2 of 3: %d of %d requests succeeded as they are, %d of %d with up to 4 retries\n",
		without["200"], n, with["200"], n)
	if without["200"] != n/3 || without["503"] != n-n/3 {
		return fmt.Errorf("without retries want %d successes, got %v", n/3, without)
	}
	if with["200"] != n {
		return fmt.Errorf("with retries every request should succeed, got %v", with)
	}
	return nil
}
