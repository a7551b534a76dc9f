package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"fairway/internal/agent/token"
)

// replaceTimeout bounds the time that one replacement may take.
const replaceTimeout = 30 * time.Second

// load counts the requests that were sent during a replacement.
type load struct {
	requests, failed atomic.Int64
	last             atomic.Value // of the failures, as text
}

// during sends requests from four clients until fn returns, and a moment longer.
func (w *world) during(ctx context.Context, fn func(ctx context.Context) error) (*load, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, replaceTimeout, fmt.Errorf("not done within %s", replaceTimeout))
	defer cancel()
	l, done := &load{}, make(chan struct{})
	var clients sync.WaitGroup
	for range 4 {
		clients.Go(func() {
			for {
				select {
				case <-done:
					return
				default:
					w.ask(ctx, l)
				}
			}
		})
	}
	err := fn(ctx)
	close(done)
	clients.Wait()
	return l, err
}

// ask makes one request that goes through all three proxies.
func (w *world) ask(ctx context.Context, l *load) {
	p, err := w.visit(ctx, jason)
	l.requests.Add(1)
	if err == nil && p.reviews() == "v2" {
		return
	}
	l.failed.Add(1)
	if err == nil {
		err = fmt.Errorf("status %d, reviews %q: %s", p.Status, p.reviews(), p.Error)
	}
	l.last.Store(err.Error())
}

// verdict prints how many requests failed, and returns an error if any did.
func (l *load) verdict(out io.Writer, what string) error {
	fmt.Fprintf(out, "  %s under load: %d of %d requests failed\n", what, l.failed.Load(), l.requests.Load())
	if l.failed.Load() > 0 {
		return fmt.Errorf("%d of %d requests failed, the last: %s", l.failed.Load(), l.requests.Load(), l.last.Load())
	}
	return nil
}

// showHotRestart replaces each Envoy by a new one that takes over its sockets.
func showHotRestart(ctx context.Context, w *world, out io.Writer) error {
	l, err := w.during(ctx, func(ctx context.Context) error {
		for i := range proxyNames {
			before, err := w.epoch(ctx, i)
			if err != nil {
				return err
			}
			if err := w.restart(ctx, i); err != nil {
				return err
			}
			if err := w.until(ctx, func() (bool, error) {
				now, err := w.epoch(ctx, i)
				return err == nil && now > before, nil // the old one lets go of its port before the new one has it
			}); err != nil {
				return fmt.Errorf("%s: %w", proxyNames[i], err)
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	return l.verdict(out, fmt.Sprintf("%d Envoys replaced by hot restart", len(proxyNames)))
}

// restart asks an agent to replace its Envoy.
func (w *world) restart(ctx context.Context, proxy int) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodPost,
		"http://"+at(proxyAddresses[proxy], w.ports.status[proxy])+"/hot-restart", nil)
	if err != nil {
		return err
	}
	shown, err := token.Read(filepath.Join(w.dir, "proxies", proxyNames[proxy], token.File))
	if err != nil {
		return fmt.Errorf("read the token of %s's agent: %w", proxyNames[proxy], err)
	}
	request.Header.Set(token.Header, string(shown))
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	if text, _ := io.ReadAll(answer.Body); answer.StatusCode/100 != 2 {
		return fmt.Errorf("hot restart of %s: status %d: %s", proxyNames[proxy], answer.StatusCode, text)
	}
	return nil
}

// epoch counts the Envoys that a proxy has had, by the one that serves now.
func (w *world) epoch(ctx context.Context, proxy int) (int, error) {
	body, status, err := fetch(ctx, w.http(w.ports.admin[proxy], "/server_info"), nil)
	if err != nil || status != http.StatusOK {
		return 0, fmt.Errorf("ask %s: status %d, %w", proxyNames[proxy], status, err)
	}
	var info struct {
		State string `json:"state"`
		Line  struct {
			Epoch int `json:"restart_epoch"`
		} `json:"command_line_options"`
	}
	if err := json.Unmarshal(body, &info); err != nil || info.State != "LIVE" {
		return 0, fmt.Errorf("ask %s: state %q, %w", proxyNames[proxy], info.State, err)
	}
	return info.Line.Epoch, nil
}

// showRotation waits until every proxy shows another certificate.
func showRotation(ctx context.Context, w *world, out io.Writer) error {
	l, err := w.during(ctx, func(ctx context.Context) error {
		for i := range proxyNames {
			before, err := w.shown(ctx, i)
			if err != nil {
				return err
			}
			if err := w.until(ctx, func() (bool, error) {
				now, err := w.shown(ctx, i)
				return now.Serial != before.Serial, err
			}); err != nil {
				return fmt.Errorf("the certificate of %s is not replaced: %w", proxyNames[i], err)
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	return l.verdict(out, fmt.Sprintf("%d certificates (good for %s) replaced", len(proxyNames), certificateLife))
}

// until calls done again and again until it returns true or an error.
func (w *world) until(ctx context.Context, done func() (bool, error)) error {
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		if ok, err := done(); ok || err != nil {
			return err
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}
