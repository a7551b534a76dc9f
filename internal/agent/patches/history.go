package patches

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

// history is what this agent and earlier ones know of the patches of a bootstrap. It is kept on disk, so that a start does not fail
// twice for one reason.
type history struct {
	// LeftOut are patches that Envoy cannot run with, by resource name: one is tried again if it changes, or after retryAfter.
	LeftOut map[string]leftOut `json:"aside,omitempty"`
	// Ran are the patches of an Envoy that served, as name → digest: if the next Envoy fails, others are to blame.
	Ran map[string]string `json:"ran,omitempty"`
}

// leftOut is why a patch is not merged.
type leftOut struct {
	Digest string    `json:"digest"` // of the patch
	Why    string    `json:"why"`
	At     time.Time `json:"at"`
}

// retryAfter is the time after which a new agent tries an unchanged patch again: the reason why it failed may have gone.
const retryAfter = time.Hour

// longestHistory bounds the file, in bytes.
const longestHistory = 1 << 20

// historyFile is its name in the cache's folder.
const historyFile = "patches.json"

// readHistory reads the history of earlier agents; one that cannot be read counts as empty.
func (p *Set) readHistory(now time.Time) {
	if p.file == "" {
		return
	}
	text, err := safefile.Read(p.file, longestHistory)
	if errors.Is(err, fs.ErrNotExist) {
		return
	}
	var seen history
	if err == nil {
		err = json.Unmarshal(text, &seen)
	}
	if err != nil {
		p.log.Warn("the stored results of patches cannot be used", "file", p.file, "error", err)
		return
	}
	maps.DeleteFunc(seen.LeftOut, func(_ string, a leftOut) bool { return a.At.After(now) || now.Sub(a.At) > retryAfter })
	p.history.Ran = seen.Ran
	if seen.LeftOut != nil {
		p.history.LeftOut = seen.LeftOut
	}
}

// writeHistory writes the history; the caller holds mu.
func (p *Set) writeHistory() {
	if p.file == "" {
		return
	}
	text, err := json.Marshal(p.history)
	if err == nil {
		err = safefile.Write(p.file, text, 0o600)
	}
	if err != nil {
		p.log.Warn("the results of patches cannot be stored: the next agent tries them again", "error", err)
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

// isLeftOut reports whether a patch is not merged because Envoy cannot run with it; the caller holds mu.
func (p *Set) isLeftOut(name string) bool {
	a, is := p.history.LeftOut[name]
	return is && a.Digest == digestOf(p.known[name])
}

// merged returns the names of the patches that are merged, in their order; the caller holds mu.
func (p *Set) merged() []string {
	names := slices.DeleteFunc(slices.Collect(maps.Keys(p.known)), p.isLeftOut)
	slices.SortFunc(names, func(a, b string) int { return strings.Compare(p.known[a].Order, p.known[b].Order) })
	return names
}

// Merged returns the names of the patches that are merged, in their order.
func (p *Set) Merged() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.merged()
}

// Untried returns the names of Merged that no Envoy has served with.
func (p *Set) Untried() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.DeleteFunc(p.merged(), func(name string) bool { return p.history.Ran[name] == digestOf(p.known[name]) })
}

// LeaveOut leaves patches out until they change, or an agent starts much later. why is text of a stranger's.
func (p *Set) LeaveOut(names []string, why string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, name := range names {
		if known, is := p.known[name]; is {
			p.history.LeftOut[name] = leftOut{digestOf(known), printable.Lines(why, printable.Long), time.Now()}
			p.log.Error("envoy cannot run with an EnvoyFilter's patch of the bootstrap: it is left out until it changes",
				"filter", printable.Text(name, printable.Short), "error", why)
		}
	}
	p.writeHistory()
	p.noteFailing()
}

// TryAgain merges a patch that was left out.
func (p *Set) TryAgain(name string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.history.LeftOut, name)
}

// remember notes which patches an override holds; the caller holds mu.
func (p *Set) remember(override string, names []string) {
	made := make(map[string]string, len(names))
	for _, name := range names {
		made[name] = digestOf(p.known[name])
	}
	if len(p.made) >= overridesKept {
		clear(p.made)
	}
	p.made[override] = made
}

// overridesKept bounds how many overrides are remembered with their patches: that of the Envoy that serves, and of the next ones.
const overridesKept = 8

// Served notes that an Envoy serves with an override: its patches are not to blame when another one fails.
func (p *Set) Served(override string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if ran, is := p.made[override]; is && !maps.Equal(ran, p.history.Ran) {
		p.history.Ran = ran
		p.writeHistory()
	}
}

// failingNow returns the patches that Envoy cannot run with, each with the reason, for the control plane.
func (p *Set) failingNow() map[string]string {
	p.mu.Lock()
	defer p.mu.Unlock()
	out := map[string]string{}
	for name, a := range p.history.LeftOut {
		if _, is := p.known[name]; is && p.isLeftOut(name) {
			out[name] = a.Why
		}
	}
	return out
}

// noteFailing makes Run report the patches that are left out, if they have changed.
func (p *Set) noteFailing() {
	select {
	case p.failing <- struct{}{}:
	default: // noted already
	}
}

// NoteFailure makes Run find the patches to blame for an Envoy that could not take over.
func (p *Set) NoteFailure(why error) {
	select {
	case p.failed <- why:
	default: // noted already
	}
}

// ForgetFailure drops a failure that Run has not taken yet.
func (p *Set) ForgetFailure() {
	select {
	case <-p.failed: //nolint:errcheck // it is forgotten
	default:
	}
}
