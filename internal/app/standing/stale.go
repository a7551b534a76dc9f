package standing

import (
	"fmt"
	"time"

	"fairway/internal/mesh"
	"fairway/internal/mesh/code"
	"fairway/internal/source/shards"
)

// Behind lists the sources that are out of date now, one a line. Proxies are still served, with the rows that were read last. The
// reasons are shown only to callers who may see problems.
func (s *Standing) Behind() []string {
	var out []string
	for _, one := range s.Sources.Standings() {
		if behind(one) {
			out = append(out, fmt.Sprintf("%s is %s for %s; pilotctl problems shows the "+
				"reason", one.Source, one.Phase, age(one, time.Now())))
		}
	}
	return out
}

// behind reports whether a source needs attention: its rows may be out of date, or were never complete.
func behind(s shards.Standing) bool {
	return s.Phase == shards.Stale.String() || s.Phase == shards.Late.String()
}

// unreadAfter is how long a source may fail to be read at the start until that is a problem.
const unreadAfter = 2 * time.Second

// unread reports whether a source has not been read since the start, and says why.
func unread(s shards.Standing, now time.Time) bool {
	return s.Phase == shards.Waiting.String() && s.Detail != "" && now.Sub(s.Since) >= unreadAfter
}

// unreadProblem returns the problem of such a source.
func unreadProblem(s shards.Standing) mesh.Problem {
	return mesh.Problem{
		Object: mesh.ObjectRef{Kind: "source", Name: s.Source}, Code: code.SourceStale, Severity: mesh.Warning,
		Message: fmt.Sprintf("it has not been read since the start at %s: %s", s.Since.UTC().Format(time.RFC3339), s.Detail),
		Fix:     "see that it can be reached, and that what names it is right; it is tried again by itself",
	}
}

// age returns for how long a source has been as it is. A clock that was set back makes nothing younger than now.
func age(s shards.Standing, now time.Time) time.Duration {
	return max(0, now.Sub(s.Since)).Truncate(time.Second)
}

// staleProblem returns the problem of a source that is not kept up to date: a warning at first, as most outages are over in seconds, and an
// error once it has lasted for as long as that.
func staleProblem(s shards.Standing, now time.Time, serious time.Duration) mesh.Problem {
	p := mesh.Problem{
		Object: mesh.ObjectRef{Kind: "source", Name: s.Source}, Code: code.SourceStale, Severity: mesh.Warning,
		Message: fmt.Sprintf("it has not been kept up to date since %s: %s; the last state that was read stays in force",
			s.Since.UTC().Format(time.RFC3339), s.Detail),
		Fix: "see that it can be reached; it is tried again by itself",
	}
	if now.Sub(s.Since) >= serious {
		p.Severity = mesh.Error
		p.Message = fmt.Sprintf("%s; that is longer than %s", p.Message, serious)
	}
	return p
}

// staleProblems returns those of all sources.
func (s *Standing) staleProblems() (out []mesh.Problem) {
	now := time.Now()
	for _, one := range s.Sources.Standings() {
		switch {
		case behind(one):
			out = append(out, staleProblem(one, now, s.StaleError))
		case unread(one, now):
			out = append(out, unreadProblem(one))
		}
	}
	return out
}

// LeftOut returns how many things each source leaves out.
func (s *Standing) LeftOut() map[string]uint64 {
	out := map[string]uint64{}
	for _, one := range s.Sources.Standings() {
		out[one.Source] = one.LeftOut
	}
	return out
}

// Staleness returns for how many seconds each source has not been kept up to date; 0: it is.
func (s *Standing) Staleness() map[string]float64 {
	out, now := map[string]float64{}, time.Now()
	for _, one := range s.Sources.Standings() {
		out[one.Source] = 0
		if behind(one) {
			out[one.Source] = max(0, now.Sub(one.Since).Seconds())
		}
	}
	return out
}

// Updates counts the rows that sources handed over, under Istio's names.
func (s *Standing) Updates() map[string]uint64 {
	n := s.Sources.Handed()
	return map[string]uint64{"config": n.Objects, "svc": n.Services, "svcdelete": n.ServicesGone, "eds": n.Endpoints}
}
