package main

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// sent counts what pilot-discovery has sent to all proxies together, by its metrics.
type sent struct{ resources, bytes float64 }

func (s sent) minus(o sent) sent { return sent{s.resources - o.resources, s.bytes - o.bytes} }

func (s sent) String() string {
	plural := "s"
	if s.resources == 1 {
		plural = ""
	}
	return fmt.Sprintf("%.0f resource%s, %.0f bytes", s.resources, plural, s.bytes)
}

// settled reads the counters until they have not changed for 50 ms: then everything that a change causes has been sent.
func (w *world) settled(ctx context.Context) (sent, error) {
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	last, err := w.readSent(ctx)
	for err == nil {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return last, context.Cause(ctx)
		}
		var now sent
		if now, err = w.readSent(ctx); now == last {
			return now, err
		}
		last = now
	}
	return last, err
}

func (w *world) readSent(ctx context.Context) (sent, error) {
	body, status, err := fetch(ctx, w.http(w.ports.monitoring, "/metrics"), nil)
	if err != nil || status != 200 {
		return sent{}, fmt.Errorf("read pilot-discovery's metrics: status %d, %w", status, err)
	}
	return sent{sum(body, "fairway_xds_sent_resources_total"), sum(body, "fairway_xds_sent_bytes_total")}, nil
}

// sum adds up a metric over all its labels, out of Prometheus' text format.
func sum(text []byte, metric string) (total float64) {
	lines := bufio.NewScanner(bytes.NewReader(text))
	for lines.Scan() {
		rest, ok := strings.CutPrefix(lines.Text(), metric)
		if !ok || rest == "" || (rest[0] != '{' && rest[0] != ' ') {
			continue
		}
		if n, err := strconv.ParseFloat(rest[strings.LastIndexByte(rest, ' ')+1:], 64); err == nil {
			total += n
		}
	}
	return total
}
