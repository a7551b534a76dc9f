package way

import (
	"fmt"
	"strings"

	"fairway/internal/printable"
)

// Bounds of a text.
const (
	mostPassed = 12 // alternatives of a step
	mostListed = 20 // endpoints of an outcome
)

// Text returns the answer for a person to read: the steps of the first way, its outcome, and how other ways differ.
func (a Answer) Text() string {
	var b strings.Builder
	for i, way := range a.Ways {
		from := 0
		if i == 0 {
			if len(a.Ways) > 1 {
				fmt.Fprintf(&b, "There are %d ways.\n", len(a.Ways))
			}
		} else {
			for from < min(len(way.Steps), len(a.Ways[0].Steps)) && way.Steps[from].Decision == a.Ways[0].Steps[from].Decision &&
				way.Steps[from].Part == a.Ways[0].Steps[from].Part {
				from++
			}
		}
		if len(a.Ways) > 1 {
			fmt.Fprintf(&b, "\nWay %d, probability %.4g%%", i+1, 100*way.Probability)
			if from > 0 {
				fmt.Fprintf(&b, ", like way 1 in its first %d steps", from)
			}
			b.WriteString(":\n")
		}
		for _, c := range way.Conditions {
			fmt.Fprintf(&b, "  if %s\n", c)
		}
		for n, s := range way.Steps[from:] {
			s.write(&b, from+n+1)
		}
		for _, d := range way.Doubts {
			fmt.Fprintf(&b, "  cannot say for sure: %s\n", d)
		}
		fmt.Fprintf(&b, "=> %s\n", way.Outcome.Text())
	}
	if a.Truncated {
		b.WriteString("\nThere are more ways than the interpreter follows.\n")
	}
	return printable.Lines(b.String(), 1<<20)
}

func (s Step) write(b *strings.Builder, n int) {
	fmt.Fprintf(b, "%3d. %s: %s", n, s.Stage, s.Decision)
	if where := strings.TrimSpace(s.Resource + " " + s.Part); where != "" {
		fmt.Fprintf(b, "  [%s]", where)
	}
	b.WriteByte('\n')
	for _, o := range s.Objects {
		fmt.Fprintf(b, "       from %s\n", o)
	}
	for i, p := range s.Passed {
		if i == mostPassed {
			fmt.Fprintf(b, "       and not %d more\n", len(s.Passed)-i)
			break
		}
		fmt.Fprintf(b, "       not %s: %s\n", p.Part, p.Reason)
	}
}

// Text returns the outcome for a person to read.
func (o Outcome) Text() string {
	var b strings.Builder
	switch o.Kind {
	case Unknown:
		return "cannot say: " + o.Reason
	case Closed:
		return "the connection is closed: " + o.Reason
	case Answered:
		fmt.Fprintf(&b, "the proxy answers %d", o.Status)
		for _, more := range []string{o.Flag, o.Details} {
			if more != "" {
				b.WriteString(" " + more)
			}
		}
		if o.Location != "" {
			fmt.Fprintf(&b, ", location %s", o.Location)
		}
		if o.GRPC {
			b.WriteString(", as a gRPC status with HTTP status 200")
		}
		return b.String()
	}
	what := "the request"
	if o.TCP {
		what = "the connection"
	}
	fmt.Fprintf(&b, "%s goes to cluster %s", what, Quote(o.Cluster))
	for i, e := range o.Endpoints {
		if i == mostListed {
			fmt.Fprintf(&b, "\n     and %d more", len(o.Endpoints)-i)
			break
		}
		fmt.Fprintf(&b, "\n     %s %s %.4g%%", e.Address, e.Health, 100*e.Share)
		if e.Locality != "" {
			fmt.Fprintf(&b, " of %s", e.Locality)
		}
		if e.Priority > 0 {
			fmt.Fprintf(&b, " priority %d", e.Priority)
		}
	}
	return b.String()
}
