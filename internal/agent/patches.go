package agent

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
)

// patchesWithin is how long a first Envoy waits for the control plane to say what its bootstrap is patched with: as
// long as a control plane that is there needs. One that is not holds up nobody for longer, and what it says later comes
// by a hot restart.
const patchesWithin = 3 * time.Second

// patches are the control plane's changes to the bootstrap.
type patches struct {
	mu      sync.Mutex
	known   map[string]bootstrap.Patch // by resource name
	refused map[string]string          // why one is not merged, by resource name
	log     *slog.Logger
	dir     string        // of the agent, from which no patch has Envoy read
	said    chan struct{} // closed once the control plane, or the cache, has spoken
	changed chan struct{} // holds a token while something is new since said

	seen   experience
	file   string                       // that keeps seen; empty: nothing does
	made   map[string]map[string]string // override → patches in it, as name → digest
	failed chan error                   // holds why an Envoy could not take over, until somebody looks
	news   chan struct{}                // holds a token when what is set aside has changed
	told   map[string]string            // what the control plane was told of it; run's own
}

// newPatches knows nothing yet but what earlier agents have seen. dir is the agent's folder, cache where that is kept; empty: nowhere.
func newPatches(dir, cache string, log *slog.Logger) *patches {
	p := &patches{
		dir:     dir,
		known:   map[string]bootstrap.Patch{},
		refused: map[string]string{},
		log:     log,
		said:    make(chan struct{}),
		changed: make(chan struct{}, 1),
		seen: experience{
			Aside: map[string]setAside{},
		},
		made:   map[string]map[string]string{},
		failed: make(chan error, 1),
		news:   make(chan struct{}, 1),
	}
	if cache != "" {
		p.file = filepath.Join(cache, experienceFile)
	}
	p.recall(time.Now())
	return p
}

// subscription asks the control plane for all patches there are for this proxy.
func (p *patches) subscription() relay.Subscription {
	return relay.Subscription{Type: bootstrap.PatchType, Take: p.take}
}

func (p *patches) take(u relay.Update) error {
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
		delete(p.seen.Aside, name)
	}
	for _, name := range slices.Sorted(maps.Keys(read)) {
		if err := p.admit(name, read[name]); err != nil {
			delete(read, name) // what worked before stays
			p.refused[name] = err.Error()
			p.log.Error(
				"an EnvoyFilter's patch of the bootstrap is left out",
				"filter",
				printable.Text(name, printable.Short),
				"error",
				err,
			)
		}
	}
	news := len(p.known) != before || len(read) > 0
	maps.Copy(p.known, read)
	p.poke()
	select {
	case <-p.said:
		if news {
			p.tell()
		}
	default:
		close(p.said) // whoever waits for this reads what is known
	}
	return nil
}

// admit says why a patch is not merged; the caller holds mu.
func (p *patches) admit(name string, one bootstrap.Patch) error {
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

// why gives what was refused with its reasons, for /debug/agent.
func (p *patches) why() map[string]string {
	p.mu.Lock()
	defer p.mu.Unlock()
	out := maps.Clone(p.refused)
	for name := range p.known {
		if p.isAside(name) {
			out[name] = p.seen.Aside[name].Why
		}
	}
	return out
}

func (p *patches) tell() {
	select {
	case p.changed <- struct{}{}:
	default: // told already
	}
}

// names are those of the patches in force, for /debug/agent.
func (p *patches) names() []string {
	return slices.Sorted(slices.Values(p.merging()))
}

// over gives what Envoy merges over its bootstrap: the patches in their order, and the machine's own override last.
// Without patches that is the override itself.
func (p *patches) over(override string) (string, error) { return p.overOf(p.merging(), override) }

// overOf is over with just some of the patches, given in their order.
func (p *patches) overOf(names []string, override string) (out string, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	defer func() { p.remember(out, names) }()
	if len(names) == 0 {
		return override, nil
	}
	merged := map[string]any{}
	for _, name := range names {
		merged = mergeObject(merged, p.known[name].Value.AsMap()) // of one that has gone meanwhile that is empty
	}
	var own map[string]any
	if err := yaml.Unmarshal([]byte(override), &own); err != nil {
		return "", fmt.Errorf("ISTIO_BOOTSTRAP_OVERRIDE: %w", err)
	}
	text, err := json.Marshal(mergeObject(merged, own))
	return string(text), err
}

// patched are options with what the control plane changes in them.
func (a *agent) patched(o Options) (Options, error) {
	if a.patches == nil {
		return o, nil
	}
	var err error
	o.patched, o.unpatched = true, o.Override
	o.Override, err = a.patches.over(o.Override)
	return o, err
}

// mergeObject puts b over a as Envoy merges messages (EnvoyFilter.Patch.Operation MERGE): objects field by field, lists
// one after the other, anything else by replacing it. Neither is changed.
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

// patchActions are what run has the agent do.
type patchActions struct {
	restart func(context.Context)
	blame   func(context.Context, error)
	tell    func()
}

// run is a part of the agent: Envoy starts when it is known what its bootstrap is patched with, or when that takes too
// long; later changes are hot restarts. Whom failures are to be blamed on, and whom that is told, is asked meanwhile.
func (p *patches) run(ctx context.Context, up func(), log *slog.Logger, do patchActions) error {
	late := time.NewTimer(patchesWithin)
	defer late.Stop()
	select {
	case <-ctx.Done():
		return nil
	case <-p.said:
		up()
	case <-late.C:
		log.Warn(
			"the control plane does not say how EnvoyFilter objects patch the bootstrap: Envoy starts without, and is replaced if it does",
			"waited",
			patchesWithin,
		)
		up()
		select {
		case <-ctx.Done():
			return nil
		case <-p.said:
			p.tell()
		}
	}
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-p.changed:
			do.restart(ctx) // it says itself what went wrong
		case why := <-p.failed:
			do.blame(ctx, why)
		case <-p.news:
			do.tell()
		}
	}
}
