package app

import (
	"fmt"
	"time"

	"fairway/internal/mesh"
	"fairway/internal/mesh/code"
	"fairway/internal/source/shards"
)

// Behind says, in a line each, which sources are not kept up to date for now. Proxies are served all the same, by what was read
// last. Why they are not is for those alone who may see problems.
func (d *Discovery) Behind() []string {
	var out []string
	for _, s := range d.shards.Standings() {
		if behind(s) {
			out = append(out, fmt.Sprintf("%s is %s for %s; pilotctl problems tells why", s.Source, s.Phase, age(s, time.Now())))
		}
	}
	return out
}

// behind says whether somebody has to look after a source: what it handed over may be out of date, or was never whole.
func behind(s shards.Standing) bool {
	return s.Phase == shards.Stale.String() || s.Phase == shards.Late.String()
}

// age is for how long a source has been as it is. A clock that was set back makes nothing younger than now.
func age(s shards.Standing, now time.Time) time.Duration {
	return max(0, now.Sub(s.Since)).Truncate(time.Second)
}

// staleProblem says that a source is not kept up to date: a warning at first, as most outages are over in seconds, and an
// error once it has lasted for as long as that.
func staleProblem(s shards.Standing, now time.Time, serious time.Duration) mesh.Problem {
	p := mesh.Problem{
		Object: mesh.ObjectRef{Kind: "source", Name: s.Source}, Code: code.SourceStale, Severity: mesh.Warning,
		Message: fmt.Sprintf("it has not been kept up to date since %s: %s; what was read before stays in force",
			s.Since.UTC().Format(time.RFC3339), s.Detail),
		Fix: "see that it can be reached; it is tried again by itself",
	}
	if now.Sub(s.Since) >= serious {
		p.Severity = mesh.Error
		p.Message = fmt.Sprintf("%s; that is longer than %s", p.Message, serious)
	}
	return p
}

// staleProblems are those of all sources.
func (d *Discovery) staleProblems() (out []mesh.Problem) {
	now := time.Now()
	for _, s := range d.shards.Standings() {
		if behind(s) {
			out = append(out, staleProblem(s, now, d.opts.StaleError))
		}
	}
	return out
}

// leftOut is how many things each source leaves out.
func (d *Discovery) leftOut() map[string]uint64 {
	out := map[string]uint64{}
	for _, s := range d.shards.Standings() {
		out[s.Source] = s.LeftOut
	}
	return out
}

// staleness is for how many seconds each source has not been kept up to date; 0: it is.
func (d *Discovery) staleness() map[string]float64 {
	out, now := map[string]float64{}, time.Now()
	for _, s := range d.shards.Standings() {
		out[s.Source] = 0
		if behind(s) {
			out[s.Source] = max(0, now.Sub(s.Since).Seconds())
		}
	}
	return out
}
