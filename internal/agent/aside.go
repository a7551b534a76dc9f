package agent

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io/fs"
	"maps"
	"slices"
	"strings"
	"time"

	"google.golang.org/protobuf/proto"

	"fairway/internal/envoy/bootstrap"
	"fairway/internal/identity/safefile"
	"fairway/internal/printable"
)

// experience is what an agent and those before it have seen of the patches of a bootstrap. It is kept on disk, so that
// a start does not fail twice for one reason.
type experience struct {
	// Aside are patches with which Envoy cannot run, by resource name: a changed one is tried, and each again after retryAside.
	Aside map[string]setAside `json:"aside,omitempty"`
	// Ran are patches with which an Envoy has served, as name → digest: not these are to blame where the next one does not.
	Ran map[string]string `json:"ran,omitempty"`
}

// setAside says why a patch is not merged.
type setAside struct {
	Digest string    `json:"digest"` // of the patch
	Why    string    `json:"why"`
	At     time.Time `json:"at"`
}

// retryAside is after how long an agent that starts tries a patch again that has not changed: what kept it from running may have gone.
const retryAside = time.Hour

// longestExperience bounds the file, in bytes.
const longestExperience = 1 << 20

// experienceFile is its name in the cache's folder.
const experienceFile = "patches.json"

// recall reads what earlier agents have seen; what cannot be read counts as nothing.
func (p *patches) recall(now time.Time) {
	if p.file == "" {
		return
	}
	text, err := safefile.Read(p.file, longestExperience)
	if errors.Is(err, fs.ErrNotExist) {
		return
	}
	var seen experience
	if err == nil {
		err = json.Unmarshal(text, &seen)
	}
	if err != nil {
		p.log.Warn("what earlier agents have seen of patches is of no use", "file", p.file, "error", err)
		return
	}
	maps.DeleteFunc(seen.Aside, func(_ string, a setAside) bool { return a.At.After(now) || now.Sub(a.At) > retryAside })
	p.seen.Ran = seen.Ran
	if seen.Aside != nil {
		p.seen.Aside = seen.Aside
	}
}

// keep writes what has been seen; the caller holds mu.
func (p *patches) keep() {
	if p.file == "" {
		return
	}
	text, err := json.Marshal(p.seen)
	if err == nil {
		err = safefile.Write(p.file, text, 0o600)
	}
	if err != nil {
		p.log.Warn("what was seen of patches is not kept: the next agent finds it out again", "error", err)
	}
}

// digestOf tells one content of a patch from another.
func digestOf(p bootstrap.Patch) string {
	raw, err := proto.MarshalOptions{Deterministic: true}.Marshal(p.Value)
	if err != nil {
		return "" // it was read from bytes, so it has some
	}
	sum := sha256.Sum256(raw)
	return hex.EncodeToString(sum[:16])
}

// isAside says whether a patch is not merged because Envoy cannot run with it; the caller holds mu.
func (p *patches) isAside(name string) bool {
	a, is := p.seen.Aside[name]
	return is && a.Digest == digestOf(p.known[name])
}

// inForce are the patches that are merged, in their order; the caller holds mu.
func (p *patches) inForce() []string {
	names := slices.DeleteFunc(slices.Collect(maps.Keys(p.known)), p.isAside)
	slices.SortFunc(names, func(a, b string) int { return strings.Compare(p.known[a].Order, p.known[b].Order) })
	return names
}

// merging lists the patches in force, in their order.
func (p *patches) merging() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.inForce()
}

// untried are those in force with which no Envoy has served.
func (p *patches) untried() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.DeleteFunc(p.inForce(), func(name string) bool { return p.seen.Ran[name] == digestOf(p.known[name]) })
}

// setAside has patches left out until they change, or an agent starts much later.
func (p *patches) setAside(names []string, why string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, name := range names {
		if known, is := p.known[name]; is {
			p.seen.Aside[name] = setAside{digestOf(known), printable.Lines(why, printable.Long), time.Now()}
			p.log.Error(
				"envoy cannot run with an EnvoyFilter's patch of the bootstrap: it is left out until it changes",
				"filter",
				printable.Text(name, printable.Short),
				"error",
				why,
			)
		}
	}
	p.keep()
	p.poke()
}

// tryAgain merges a patch that was set aside.
func (p *patches) tryAgain(name string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.seen.Aside, name)
}

// remember notes which patches an override holds; served, that an Envoy serves with one. Callers of remember hold mu.
func (p *patches) remember(override string, names []string) {
	made := make(map[string]string, len(names))
	for _, name := range names {
		made[name] = digestOf(p.known[name])
	}
	if len(p.made) >= overridesKept {
		clear(p.made)
	}
	p.made[override] = made
}

// overridesKept bounds how many overrides are remembered with what they hold: that of the Envoy that serves, and of the next ones.
const overridesKept = 8

func (p *patches) served(override string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if ran, is := p.made[override]; is && !maps.Equal(ran, p.seen.Ran) {
		p.seen.Ran = ran
		p.keep()
	}
}

// failing are the patches that are set aside, with why, as the control plane is told.
func (p *patches) failing() map[string]string {
	p.mu.Lock()
	defer p.mu.Unlock()
	out := map[string]string{}
	for name, a := range p.seen.Aside {
		if _, is := p.known[name]; is && p.isAside(name) {
			out[name] = a.Why
		}
	}
	return out
}

// poke has run tell what is set aside, where that has changed.
func (p *patches) poke() {
	select {
	case p.news <- struct{}{}:
	default: // told already
	}
}
