package patches

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"maps"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"go.yaml.in/yaml/v3"
	"google.golang.org/protobuf/proto"

	"fairway/internal/agent/relay"
	"fairway/internal/envoy/bootstrap"
	"fairway/internal/printable"
	"fairway/internal/xdstype"
)

// saidWithin is how long a first Envoy waits for the control plane to send the patches of its bootstrap: as long as a control plane
// that runs needs. If none answers, Envoy starts after this time, and patches that come later are applied by a hot restart.
const saidWithin = 3 * time.Second

// Set is the patches of one proxy's bootstrap. It is made with New; its methods may be called from any goroutine.
type Set struct {
	log  *slog.Logger
	dir  string // of the agent; no patch may make Envoy read from it
	file string // that keeps seen; empty: it is not kept

	received chan struct{}     // closed once the control plane, or the cache, has sent patches
	changed  chan struct{}     // holds a token while something is new since said
	failed   chan error        // holds why an Envoy could not take over, until Run takes it
	failing  chan struct{}     // holds a token when the failing patches that are left out have changed
	reported map[string]string // the failing patches that the control plane knows of; Run's own

	mu      sync.Mutex                   // guards what follows
	known   map[string]bootstrap.Patch   // by resource name
	refused map[string]string            // why one is not merged, by resource name
	history history                      // by this agent and those before it
	made    map[string]map[string]string // override → patches in it, as name → digest
}

// New makes a set that knows only the history of earlier agents. dir is the agent's folder; cache is the folder of the history,
// empty: none is kept.
func New(dir, cache string, log *slog.Logger) *Set {
	p := &Set{
		dir:      dir,
		known:    map[string]bootstrap.Patch{},
		refused:  map[string]string{},
		log:      log,
		received: make(chan struct{}),
		changed:  make(chan struct{}, 1),
		history:  history{LeftOut: map[string]leftOut{}},
		made:     map[string]map[string]string{},
		failed:   make(chan error, 1),
		failing:  make(chan struct{}, 1),
	}
	if cache != "" {
		p.file = filepath.Join(cache, historyFile)
	}
	p.readHistory(time.Now())
	return p
}

// Subscription returns the subscription that asks the control plane for all patches for this proxy.
func (p *Set) Subscription() relay.Subscription {
	return relay.Subscription{Type: xdstype.PatchURL, Take: p.take}
}

func (p *Set) take(u relay.Update) error {
	read := make(map[string]bootstrap.Patch, len(u.Changed))
	for _, r := range u.Changed {
		patch, err := bootstrap.DecodePatch(r.Body)
		if err != nil {
			return fmt.Errorf("bootstrap patch %s: %w", r.Name, err)
		}
		read[r.Name] = patch
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	before := len(p.known)
	for _, name := range u.Removed {
		delete(p.known, name)
		delete(p.refused, name)
		delete(p.history.LeftOut, name)
	}
	for _, name := range slices.Sorted(maps.Keys(read)) {
		if err := p.admit(name, read[name]); err != nil {
			delete(read, name) // what worked before stays
			p.refused[name] = err.Error()
			p.log.Error("an EnvoyFilter's patch of the bootstrap is left out", "filter", printable.Text(name, printable.Short),
				"error", err)
		}
	}
	news := len(p.known) != before || len(read) > 0
	maps.Copy(p.known, read)
	p.noteFailing()
	select {
	case <-p.received:
		if news {
			p.noteChange()
		}
	default:
		close(p.received) // a goroutine that waits for this reads all known patches
	}
	return nil
}

// admit returns why a patch is not merged; the caller holds mu.
func (p *Set) admit(name string, one bootstrap.Patch) error {
	delete(p.refused, name)
	size, count := proto.Size(one.Value), 1
	for other, known := range p.known {
		if other != name {
			size, count = size+proto.Size(known.Value), count+1
		}
	}
	if size > patchesBytes || count > patchCount {
		return errTooMany
	}
	return checkPatch(one, p.dir)
}

// Refused returns the patches that are not merged, each with the reason: they are not allowed, or Envoy cannot run with them.
func (p *Set) Refused() map[string]string {
	p.mu.Lock()
	defer p.mu.Unlock()
	out := maps.Clone(p.refused)
	for name := range p.known {
		if p.isLeftOut(name) {
			out[name] = p.history.LeftOut[name].Why
		}
	}
	return out
}

// noteChange makes Run restart Envoy.
func (p *Set) noteChange() {
	select {
	case p.changed <- struct{}{}:
	default: // noted already
	}
}

// Override returns what Envoy merges over its bootstrap: the patches in their order, and last the machine's own override, which is
// YAML. Without patches it returns the machine's own. An error names ISTIO_BOOTSTRAP_OVERRIDE.
func (p *Set) Override(own string) (string, error) { return p.OverrideWith(p.Merged(), own) }

// OverrideWith is Override with just some of the patches, given in their order.
func (p *Set) OverrideWith(names []string, own string) (out string, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	defer func() { p.remember(out, names) }()
	if len(names) == 0 {
		return own, nil
	}
	merged := map[string]any{}
	for _, name := range names {
		merged = mergeObject(merged, p.known[name].Value.AsMap()) // empty for one that has gone meanwhile
	}
	var last map[string]any
	if err := yaml.Unmarshal([]byte(own), &last); err != nil {
		return "", fmt.Errorf("ISTIO_BOOTSTRAP_OVERRIDE: %w", err)
	}
	text, err := json.Marshal(mergeObject(merged, last))
	return string(text), err
}

// mergeObject merges b into a as Envoy merges messages (EnvoyFilter.Patch.Operation MERGE): objects field by field, lists one after
// the other, anything else by replacing it. Neither is changed.
func mergeObject(a, b map[string]any) map[string]any {
	out := maps.Clone(a)
	for name, with := range b {
		out[name] = merge(out[name], with)
	}
	return out
}

func merge(a, b any) any {
	switch b := b.(type) {
	case map[string]any:
		if a, ok := a.(map[string]any); ok {
			return mergeObject(a, b)
		}
	case []any:
		if a, ok := a.([]any); ok {
			return slices.Concat(a, b)
		}
	}
	return b
}

// Actions are the functions that Run calls, one at a time.
type Actions struct {
	Restart func(context.Context)           // the override has changed
	Blame   func(context.Context, error)    // an Envoy could not take over, with why
	Report  func(failing map[string]string) // to the control plane: the patches that Envoy cannot run with, and why
}

// Run calls up, so that Envoy starts, when the patches of the bootstrap are known, or when that takes too long; later changes are
// restarts. It returns when ctx ends.
func (p *Set) Run(ctx context.Context, up func(), do Actions) error {
	late := time.NewTimer(saidWithin)
	defer late.Stop()
	select {
	case <-ctx.Done():
		return nil
	case <-p.received:
		up()
	case <-late.C:
		p.log.Warn(
			"the control plane does not say how EnvoyFilter objects patch the bootstrap: Envoy starts without, and is replaced if it does",
			"waited", saidWithin)
		up()
		select {
		case <-ctx.Done():
			return nil
		case <-p.received:
			p.noteChange()
		}
	}
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-p.changed:
			do.Restart(ctx)
		case why := <-p.failed:
			do.Blame(ctx, why)
		case <-p.failing:
			if now := p.failingNow(); !maps.Equal(now, p.reported) { // nothing is reported before there is one
				p.reported = now
				do.Report(now)
			}
		}
	}
}
