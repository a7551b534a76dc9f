package proxy

import (
	"context"
	"fmt"
	"log/slog"

	"fairway/internal/agent/patches"
)

// part is something that runs beside Envoy: it is up before Envoy starts, and ends after Envoy has ended.
type part struct {
	name string
	// run calls up once it offers what Envoy or other parts need, and stays until ctx ends. An error before ctx ends stops the proxy.
	run func(ctx context.Context, up func()) error
}

// parts returns this agent's parts, in the order of their start. Parts that Envoy connects to (relay, secrets, names) come before
// parts that only watch it.
func (a *agent) parts() []part {
	var parts []part
	if a.secrets != nil {
		parts = append(parts, part{"secrets", a.secrets.Run})
	}
	if a.relay != nil {
		parts = append(parts, part{"relay", a.relay.Run})
	}
	if a.modules != nil {
		parts = append(parts, part{"extensions", func(ctx context.Context, up func()) error {
			return a.modules.Run(ctx, up, a.reportModules)
		}})
	}
	if a.names != nil {
		parts = append(parts, part{"names", a.names.Run})
	}
	if a.front != nil {
		parts = append(parts, part{"administration", a.front.Run})
	}
	parts = append(parts, part{"watch", a.watch})
	if a.status != nil {
		parts = append(parts, part{"status", func(ctx context.Context, up func()) error { up(); return a.status.Run(ctx) }})
	}
	if a.health != nil {
		parts = append(parts, part{"health", func(ctx context.Context, up func()) error { up(); a.health.Run(ctx); return nil }})
	}
	if a.warming != nil {
		parts = append(parts, part{"warming", func(ctx context.Context, up func()) error { up(); a.warming.Run(ctx); return nil }})
	}
	if a.relay == nil && a.o.CustomConfig == "" {
		parts = append(parts, part{"reach", a.watchReach})
	}
	parts = append(parts, part{"memory", a.giveBackMemory})
	if a.patches != nil {
		parts = append(parts, part{"patches", func(ctx context.Context, up func()) error {
			return a.patches.Run(ctx, up, patches.Actions{
				Restart: func(ctx context.Context) { _ = a.restart(ctx, "EnvoyFilter objects patch the bootstrap", false) },
				Blame:   a.blame,
				Report:  a.reportFailing,
			})
		}})
	}
	if a.notify != "" || a.o.Ready != nil {
		parts = append(parts, part{"notify", a.notifyReady})
	}
	return parts
}

// withParts starts parts one after the other, runs do, and ends the parts in the reverse order when do has returned. If a part
// fails, do's context ends, and the error is the part's.
func withParts(ctx context.Context, log *slog.Logger, parts []part, do func(context.Context) error) error {
	if len(parts) == 0 {
		return do(ctx)
	}
	first, rest := parts[0], parts[1:]
	own, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	up, over := make(chan struct{}), make(chan error, 1)
	go func() { over <- first.run(own, func() { close(up) }) }()
	select {
	case err := <-over:
		select {
		case <-up: // both are there: it was up, and ended at once
			over <- err
		default:
			return fmt.Errorf("%s: %w", first.name, err)
		}
	case <-ctx.Done():
		stop()
		return <-over
	case <-up:
	}
	below, fail := context.WithCancelCause(ctx)
	defer fail(nil)
	watched := make(chan struct{})
	var failed error
	go func() {
		defer close(watched)
		select {
		case failed = <-over:
			if failed != nil && own.Err() == nil {
				log.Error("a part of the agent failed: the proxy is stopped", "part", first.name, "error", failed)
				fail(failed)
				return
			}
		case <-own.Done():
			failed = <-over
		}
	}()
	err := withParts(below, log, rest, do)
	stop()
	<-watched
	if failed != nil {
		return fmt.Errorf("%s: %w", first.name, failed)
	}
	return err
}
