package truth

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"fairway/internal/config"
	"fairway/internal/ctl/output"
)

// Stored tells how far control planes are with objects that were just stored where they read.
type Stored struct{ session Session }

// Follow returns the Stored of the selected control planes.
func Follow(s Session) Stored { return Stored{s} }

// Wait waits until versions of objects are in force on all proxies, for a time at most, and writes how far each is. An error says that
// something is not in force, or that this cannot be said.
func (f Stored) Wait(ctx context.Context, to io.Writer, objects []*config.Object, timeout time.Duration) error {
	defer f.session.Close()
	w := &waiting{timeout: timeout}
	questions := versions(objects)
	answers, err := w.await(ctx, f.session, questions, settled)
	if err != nil {
		return output.CannotSay(err)
	}
	_, text, missing := w.verdict(questions, answers)
	if _, err := io.WriteString(to, text); err != nil {
		return output.Fail(err)
	}
	if missing != nil {
		return output.Fail(missing)
	}
	return nil
}

// turnsWithin is how long Turns waits for control planes to read the objects: they follow etcd within milliseconds.
const turnsWithin = 2 * time.Second

// Turns returns the turns that brought versions of objects into force: "turn 8412", and one for each control plane if there are several.
// Objects that have not come into force soon are missing.
func (f Stored) Turns(ctx context.Context, objects []*config.Object) (map[config.Key]string, error) {
	defer f.session.Close()
	w := &waiting{timeout: turnsWithin}
	questions := versions(objects)
	answers, err := w.await(ctx, f.session, questions, inForce)
	if err != nil {
		return nil, err
	}
	out := map[config.Key]string{}
	for i, q := range questions {
		var words []string
		for _, a := range answers[q.what] {
			switch {
			case a.Turn == 0:
			case len(answers[q.what]) == 1:
				words = append(words, fmt.Sprintf("turn %d", a.Turn))
			default:
				words = append(words, fmt.Sprintf("turn %d of %s", a.Turn, a.ControlPlane))
			}
		}
		if len(words) > 0 {
			out[objects[i].Key] = strings.Join(words, ", ")
		}
	}
	return out, nil
}

// inForce reports whether the version is in force in all control planes, whatever proxies have of it.
func inForce(answers []liveOn) bool {
	return len(answers) > 0 && !slices.ContainsFunc(answers, func(a liveOn) bool { return a.Turn == 0 })
}

func versions(objects []*config.Object) (out []asked) {
	for _, o := range objects {
		out = append(out, version(o))
	}
	return out
}
