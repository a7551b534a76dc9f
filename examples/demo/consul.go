package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"time"
)

// reviewsSecond is the address of the instance of reviews that registers under load; its answers name reviewsSecondVersion.
const (
	reviewsSecond        = "127.0.0.34"
	reviewsSecondVersion = "v1-second"
)

// consulName is the child's, and the registry's name for pilot-discovery.
const (
	consulName   = "consul"
	consulSource = "Consul/dc1"
)

// ofConsul sets up a bookshop that only Consul knows: it copies the rules and the registration, and removes the services from the rules.
func (w *world) ofConsul() error {
	from := filepath.Join(w.root, "examples", "consul")
	for _, file := range []string{"services.yaml", "workloads.yaml"} {
		if err := os.Remove(filepath.Join(w.rules(), file)); err != nil {
			return fmt.Errorf("take the services out of the rules: %w", err)
		}
	}
	if err := w.ports.copyRules(filepath.Join(from, "rules"), w.rules()); err != nil {
		return err
	}
	for _, file := range []string{"bookshop.hcl", "registries.yaml"} {
		content, err := os.ReadFile(filepath.Join(from, file))
		if err == nil {
			err = os.WriteFile(filepath.Join(w.dir, file), w.ports.rewrite(content), 0o644)
		}
		if err != nil {
			return fmt.Errorf("copy the registration: %w", err)
		}
	}
	return nil
}

// registry returns the command that runs Consul: one server, which also registers the bookshop as its own agent.
func (w *world) registry() command {
	p := w.ports
	return command{name: consulName, path: w.consul, args: []string{
		"agent", "-server", "-bootstrap-expect=1", "-node=server", "-bind=" + local, "-client=" + local, "-log-level=warn",
		"-data-dir=" + filepath.Join(w.dir, "consul"), "-config-file=" + filepath.Join(w.dir, "bookshop.hcl"),
		"-hcl=disable_update_check=true leave_on_terminate=false performance { raft_multiplier = 1 }",
		fmt.Sprintf("-http-port=%d", p.consul[0]), fmt.Sprintf("-server-port=%d", p.consul[1]),
		fmt.Sprintf("-serf-lan-port=%d", p.consul[2]), "-serf-wan-port=-1", "-dns-port=-1", "-grpc-port=-1", "-grpc-tls-port=-1",
	}}
}

// put asks Consul's agent to do something.
func (w *world) put(ctx context.Context, path string, body any) error {
	text, err := json.Marshal(body)
	if err != nil {
		return err
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPut, w.http(w.ports.consul[0], path), bytes.NewReader(text))
	if err != nil {
		return err
	}
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	if said, err := io.ReadAll(answer.Body); err != nil || answer.StatusCode != http.StatusOK {
		return fmt.Errorf("PUT %s: %s: %s, %w", path, answer.Status, said, err)
	}
	return nil
}

// showConsul has an instance come and go, and kills Consul, while requests go on. One page without reviews fails it.
func showConsul(ctx context.Context, w *world, out io.Writer) error {
	ctx, cancel := context.WithTimeoutCause(ctx, replaceTimeout, fmt.Errorf("not done within %s", replaceTimeout))
	defer cancel()
	second := command{name: "reviews-second", path: w.service, args: []string{
		"--role", "reviews", "--version", reviewsSecondVersion, "--listen", at(reviewsSecond, w.ports.service),
	}}
	if err := w.run(second); err != nil {
		return err
	}
	n := 0
	// seen requests pages, and returns how many had reviews of the new instance.
	seen := func(pages int) (int, error) {
		n += pages
		got, err := w.visits(ctx, pages, nil, page.reviews)
		if err == nil && got[""] > 0 {
			err = fmt.Errorf("of %d pages %d came without reviews", pages, got[""])
		}
		return got[reviewsSecondVersion], err
	}
	began := time.Now()
	err := w.put(ctx, "/v1/agent/service/register", map[string]any{
		"ID": second.name, "Name": "reviews", "Address": reviewsSecond, "Port": w.ports.service,
		"Meta": map[string]string{"app": "reviews", "version": "v1"},
	})
	if err == nil {
		err = w.until(ctx, func() (bool, error) {
			count, err := seen(1)
			return count > 0, err
		})
	}
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "  a second instance of reviews v1 is registered: it answered after %s\n", milliseconds(time.Since(began)))
	began = time.Now()
	if err := w.put(ctx, "/v1/agent/service/deregister/"+second.name, nil); err != nil {
		return err
	}
	if err := w.until(ctx, func() (bool, error) {
		count, err := seen(20)
		return count == 0, err
	}); err != nil {
		return err
	}
	fmt.Fprintf(out, "  it is deregistered: 20 pages came without it, the last after %s\n", milliseconds(time.Since(began)))
	if err := w.loseConsul(ctx, seen); err != nil {
		return err
	}
	fmt.Fprintf(out, "  Consul was killed, and started again: %d pages, all with reviews\n", n)
	return nil
}

// loseConsul kills Consul, and starts it again.
func (w *world) loseConsul(ctx context.Context, seen func(pages int) (int, error)) error {
	for _, c := range w.children {
		if c.name == consulName {
			c.kill()
		}
	}
	for _, phase := range []string{"stale", "synced"} {
		if err := w.until(ctx, func() (bool, error) { return w.consulIs(ctx, phase) }); err != nil {
			return fmt.Errorf("wait for Consul to be %s: %w", phase, err)
		}
		if _, err := seen(50); err != nil {
			return err
		}
		if phase == "stale" {
			if err := w.run(w.registry()); err != nil {
				return err
			}
		}
	}
	return nil
}

// consulIs reports whether pilot-discovery shows Consul in this phase.
func (w *world) consulIs(ctx context.Context, phase string) (bool, error) {
	body, status, err := fetch(ctx, w.http(w.ports.http, "/debug/sourcez"), nil)
	if err != nil || status != http.StatusOK {
		return false, fmt.Errorf("status %d, %w", status, err)
	}
	var all []struct{ Source, Phase string }
	if err := json.Unmarshal(body, &all); err != nil {
		return false, err
	}
	for _, s := range all {
		if s.Source == consulSource {
			return s.Phase == phase, nil
		}
	}
	return false, nil
}
