package proxy

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"fairway/internal/agent/epoch"
	"fairway/internal/agent/settings"
	"fairway/internal/disk/watch"
	"fairway/internal/envoy/bootstrap"
)

// restart has an Envoy made from the current files and environment take over. Unless forced it does nothing if that would be the
// same Envoy. Restarts run one at a time, so that each reads the configuration when it begins; a call uses the result of another
// restart that began after the call.
func (a *agent) restart(ctx context.Context, why string, force bool) error {
	asked := time.Now()
	select {
	case a.turn <- struct{}{}:
		defer func() { <-a.turn }()
	case <-ctx.Done():
		return ctx.Err()
	}
	if a.began.After(asked) {
		return a.result
	}
	began := time.Now()
	done, err := a.restartNow(ctx, why, force)
	if done {
		a.began, a.result = began, err
	}
	if err != nil && !errors.Is(err, epoch.ErrOver) && ctx.Err() == nil {
		a.log.Error("no restart", "why", why, "error", err)
	}
	return err
}

// restartNow reports whether a restart was needed, and returns its error.
func (a *agent) restartNow(ctx context.Context, why string, force bool) (needed bool, err error) {
	o, err := a.renewed()
	if err != nil {
		return false, fmt.Errorf("read the configuration: %w", err)
	}
	patched, err := a.patched(o)
	if err != nil {
		return false, fmt.Errorf("read the configuration: %w", err)
	}
	plan, _, err := patched.Plan()
	if err == nil {
		plan, err = plan.Stamped()
	}
	if err != nil {
		return false, err
	}
	if !force && plan.Equal(a.envoys.Plan()) {
		a.log.Debug("nothing to restart for", "why", why)
		return false, nil
	}
	if err := a.envoys.Restart(ctx, plan, why); err != nil {
		return true, err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.warnUnknown(a.now.Unknown, o.Unknown)
	a.now = o
	return true, nil
}

// warnUnknown logs unknown fields, except those that were unknown before.
func (a *agent) warnUnknown(before, now []string) {
	for _, field := range now {
		if !slices.Contains(before, field) {
			a.log.Warn("an unknown field of the proxy's configuration is passed over", "field", field)
		}
	}
}

// renewed returns the current options, except those that only a new agent can change.
func (a *agent) renewed() (settings.Options, error) {
	if a.o.Renew == nil {
		return a.o, nil
	}
	o, err := a.o.Renew()
	if err != nil {
		return o, err
	}
	if o, err = o.Complete(); err != nil {
		return o, err
	}
	probe := o.Health
	keepParts(&o, a.o)
	if err := needsAnotherAgent(o, a.o); err != nil {
		return o, err
	}
	a.replaceProbe(probe)
	return a.keepThreads(o), nil
}

// needsAnotherAgent returns an error if renewed options change what only a new agent can change.
func needsAnotherAgent(o, first settings.Options) error {
	if o.Bootstrap.Admin != first.Bootstrap.Admin || o.Status.Listen != first.Status.Listen || o.ConfigDir != first.ConfigDir {
		return fmt.Errorf(
			"the ports of administration and status, and the configuration's folder, change with a new agent only (%s, %s, %s)",
			o.Bootstrap.Admin, o.Status.Listen, o.ConfigDir)
	}
	return nil
}

// keepParts keeps in renewed options the sockets of the parts beside Envoy, which run as long as the agent.
func keepParts(o *settings.Options, first settings.Options) {
	o.Secrets, o.Names, o.Relay, o.Health = first.Secrets, first.Names, first.Relay, first.Health
	o.Extensions, o.Bootstrap.ExtensionsSocket = first.Extensions, first.Bootstrap.ExtensionsSocket
	o.Bootstrap.Discovery, o.Bootstrap.Others = bootstrapDiscovery(o.Bootstrap, first)
	o.Bootstrap.SecretsSocket, o.Bootstrap.DiscoverySocket = first.Bootstrap.SecretsSocket, first.Bootstrap.DiscoverySocket
	o.Bootstrap.Token, o.Bootstrap.AdminSocket, o.Bootstrap.AdminMoved = first.Bootstrap.Token, first.Bootstrap.AdminSocket,
		first.Bootstrap.AdminMoved
	o.Bootstrap.DrainFile = first.Bootstrap.DrainFile
}

// bootstrapDiscovery returns the addresses of the control planes: with a relay, those that the relay uses.
func bootstrapDiscovery(now bootstrap.Params, first settings.Options) (bootstrap.HostPort, []bootstrap.HostPort) {
	if first.Relay != nil {
		return first.Bootstrap.Discovery, first.Bootstrap.Others
	}
	return now.Discovery, now.Others
}

// watch restarts Envoy when a file that it is made from has changed.
func (a *agent) watch(ctx context.Context, up func()) error {
	up()
	if a.o.Renew == nil {
		<-ctx.Done()
		return nil
	}
	files := watch.Follow(watch.Options{Files: a.watched, Quiet: a.o.WatchEvery, Every: a.o.WatchEvery, Log: a.log})
	defer files.Stop()
	for {
		select {
		case <-files.Changed():
			_ = a.restart(ctx, "a file has changed", false) // it logs its errors itself
		case <-ctx.Done():
			return nil
		}
	}
}

// watched returns the files that an Envoy is made from; options name them anew each time.
func (a *agent) watched() []string {
	a.mu.Lock()
	defer a.mu.Unlock()
	return append([]string{a.now.Envoy, a.now.CustomConfig}, a.now.Watched...)
}
