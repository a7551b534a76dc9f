package agent

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"go.yaml.in/yaml/v3"
	"google.golang.org/protobuf/proto"

	"fairway/internal/agent/relay"
	"fairway/internal/envoy/bootstrap"
	"fairway/internal/printable"
)

// patchesWithin is how long a first Envoy waits for the control plane to say what its bootstrap is patched with: as long as a control plane that is there needs. One that is
// not holds up nobody for longer, and what it says later comes by a hot restart.
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
}

func newPatches(dir string, log *slog.Logger) *patches {
	return &patches{dir: dir, known: map[string]bootstrap.Patch{}, refused: map[string]string{}, log: log, said: make(chan struct{}), changed: make(chan struct{}, 1)}
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
	}
	for _, name := range slices.Sorted(maps.Keys(read)) {
		if err := p.admit(name, read[name]); err != nil {
			delete(read, name) // what worked before stays
			p.refused[name] = err.Error()
			p.log.Error("an EnvoyFilter's patch of the bootstrap is left out", "filter", printable.Text(name, printable.Short), "error", err)
		}
	}
	news := len(p.known) != before || len(read) > 0
	maps.Copy(p.known, read)
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
	return maps.Clone(p.refused)
}

func (p *patches) tell() {
	select {
	case p.changed <- struct{}{}:
	default: // told already
	}
}

// names are those of the patches in force, for /debug/agent.
func (p *patches) names() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Sorted(maps.Keys(p.known))
}

// over gives what Envoy merges over its bootstrap: the patches in their order, and the machine's own override last. Without patches that is the override itself.
func (p *patches) over(override string) (string, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.known) == 0 {
		return override, nil
	}
	merged := map[string]any{}
	for _, one := range slices.SortedFunc(maps.Values(p.known), func(a, b bootstrap.Patch) int { return cmp.Compare(a.Order, b.Order) }) {
		merged = mergeObject(merged, one.Value.AsMap())
	}
	var own map[string]any
	if err := yaml.Unmarshal([]byte(override), &own); err != nil {
		return "", fmt.Errorf("ISTIO_BOOTSTRAP_OVERRIDE: %w", err)
	}
	out, err := json.Marshal(mergeObject(merged, own))
	return string(out), err
}

// patched are options with what the control plane changes in them.
func (a *agent) patched(o Options) (Options, error) {
	if a.patches == nil {
		return o, nil
	}
	var err error
	o.Override, err = a.patches.over(o.Override)
	return o, err
}

// mergeObject puts b over a as Envoy merges messages (EnvoyFilter.Patch.Operation MERGE): objects field by field, lists one after the other, anything else by replacing it.
// Neither is changed.
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

// run is a part of the agent: Envoy starts when it is known what its bootstrap is patched with, or when that takes too long; later changes are hot restarts.
func (p *patches) run(ctx context.Context, up func(), log *slog.Logger, restart func(context.Context)) error {
	late := time.NewTimer(patchesWithin)
	defer late.Stop()
	select {
	case <-ctx.Done():
		return nil
	case <-p.said:
		up()
	case <-late.C:
		log.Warn("the control plane does not say how EnvoyFilter objects patch the bootstrap: Envoy starts without, and is replaced if it does", "waited", patchesWithin)
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
			restart(ctx) // it says itself what went wrong
		}
	}
}
