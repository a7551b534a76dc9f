package live

import (
	"fmt"
	"slices"
	"time"

	"fairway/internal/admin"
	"fairway/internal/admin/page"
	"fairway/internal/config"
	"fairway/internal/door"
	"fairway/internal/mesh"
	"fairway/internal/mesh/code"
	"fairway/internal/printable"
	"fairway/internal/table"
	"fairway/internal/xds"
	"fairway/internal/xds/library"
	"fairway/internal/xds/protocol"
	"fairway/internal/xdstype"
)

// mostBehind is how many proxies that are behind are listed.
const mostBehind = 100

// Streams says what proxies lack. *xds.Server is one.
type Streams interface {
	Lags(turn uint64, ask func(library.ProxyID) bool) xds.Lags
	PublishedAt(turn uint64) (time.Time, bool)
}

// Turns knows what turns did. *history.Log is one.
type Turns interface {
	// InForce returns the turn that brought the present version of an object into force.
	InForce(config.Key) (turn uint64, ok bool)
	// Published reports whether streams see a turn that has begun.
	Published(turn uint64) bool
	// Warms reports whether a turn may have changed listeners or clusters, which warm before proxies use them.
	Warms(turn uint64) bool
}

// Options of Answers. All are required.
type Options struct {
	// Object returns an object that a user wrote, with its place.
	Object func(config.Key) (*config.Object, bool)
	Turns  Turns
	Last   func() table.Turn
	// Waiting lists the changes that wait at the door, and Problems the errors of objects.
	Waiting  func() []door.Waiting
	Problems func() []mesh.Problem
	Streams  Streams
}

// Answers tells how far changes have come. Any goroutine may use one.
type Answers struct{ o Options }

// New returns an Answers.
func New(o Options) *Answers { return &Answers{o} }

// Live answers a question.
func (a *Answers) Live(q admin.LiveQuestion) page.Live {
	if q.Turn != 0 {
		if last := a.o.Last().Version; last < q.Turn {
			return page.Live{State: page.LivePending, Turn: q.Turn, Why: []string{fmt.Sprintf("the last turn is %d", last)}}
		}
		return a.reached(page.Live{Turn: q.Turn}, q)
	}
	out := page.Live{Kind: string(q.Key.Kind), Namespace: q.Key.Namespace, Name: q.Key.Name}
	if a.waits(q.Key, &out) {
		return out
	}
	o, ok := a.o.Object(q.Key)
	turn, since := a.o.Turns.InForce(q.Key)
	if ok {
		out.File, out.Line, out.Generation = o.Ref.File, o.Ref.Line, o.Stored.Generation
	}
	if !ok || !since || o.Stored.Generation < q.Generation || q.Hash != 0 && o.CreatedAt(0).Hash != q.Hash {
		out.State = page.LiveUnread
		if out.Why = a.errors(q.Key); len(out.Why) > 0 {
			out.State = page.LiveInvalid
		}
		return out
	}
	out.Turn = turn
	if out = a.reached(out, q); q.Generation == 0 && q.Hash == 0 && out.State != page.LivePending {
		if out.Why = a.errors(q.Key); len(out.Why) > 0 {
			out.State = page.LiveInvalid // the errors may be those of a newer version, which is not in force
		}
	}
	return out
}

// waits reports whether a change of the object waits at the door, and for what.
func (a *Answers) waits(k config.Key, out *page.Live) bool {
	waiting := a.o.Waiting()
	at := slices.IndexFunc(waiting, func(w door.Waiting) bool { return w.Key == k })
	if at < 0 {
		return false
	}
	w := waiting[at]
	out.State, out.File, out.Line = page.LiveWaits, w.Ref.File, w.Ref.Line
	until := w.Until.UTC()
	out.Until = &until
	for _, what := range w.For {
		if w.Removal {
			what = "its removal, because " + what + " refers to it"
		}
		out.Why = append(out.Why, what)
	}
	return true
}

// mostErrors is how many errors of an object are listed.
const mostErrors = 10

// errors lists the errors of an object, except what proxies refuse: they are asked.
func (a *Answers) errors(k config.Key) (out []string) {
	for _, p := range a.o.Problems() {
		if config.KeyOf(p.Object) == k && p.Severity == mesh.Error && p.Code != code.Refused && len(out) < mostErrors {
			text := p.Code + ": " + p.Message
			if p.Field != "" {
				text = p.Field + ": " + text
			}
			out = append(out, text)
		}
	}
	return out
}

// How far a turn has come, the best first.
const (
	live = iota
	acknowledged
	refused
	warming
	behind
)

var states = [...]string{page.LiveYes, page.LiveAcknowledged, page.LiveRefused, page.LiveWarming, page.LiveBehind}

// reached asks the proxies for out.Turn.
func (a *Answers) reached(out page.Live, q admin.LiveQuestion) page.Live {
	if !a.o.Turns.Published(out.Turn) {
		out.State, out.Why = page.LivePending, []string{"its resources are being published"}
		return out
	}
	out.At = a.at(out.Turn)
	found := a.o.Streams.Lags(out.Turn, q.Proxies)
	out.Proxies = found.Asked
	worst := live
	for _, b := range found.Behind {
		p := a.behind(b)
		switch p.State {
		case protocol.Refused.String():
			worst = max(worst, refused)
		case page.ProxyWarming:
			out.Warming++
			worst = max(worst, warming)
		default:
			worst = behind
		}
		if len(out.Behind) < mostBehind {
			out.Behind = append(out.Behind, p)
		} else {
			out.More++
		}
	}
	if found.Silent > 0 && a.o.Turns.Warms(out.Turn) {
		out.Silent = found.Silent
		worst = max(worst, acknowledged)
	}
	out.State = states[worst]
	return out
}

// behind describes a proxy by the least that it has of anything.
func (a *Answers) behind(b xds.ProxyLag) page.LiveProxy {
	out := page.LiveProxy{ProxyID: mesh.ProxyID(b.Proxy).Node(), State: "connecting"}
	switch {
	case len(b.Lags) == 0 && !b.Unplaced:
		warms(b, &out)
		return out
	case len(b.Lags) == 0:
		return out
	}
	worst := slices.MinFunc(b.Lags, func(x, y protocol.Lag) int { return int(x.State) - int(y.State) })
	if worst.State == protocol.NotAcked && worst.Type == xdstype.ClusterURL && b.Warming.Clusters > 0 {
		warms(b, &out) // Envoy acknowledges clusters once they have warmed
		out.Type, out.Name = xdstype.Label(worst.Type), worst.Name
		return out
	}
	out.State, out.Type, out.Name = worst.State.String(), xdstype.Label(worst.Type), worst.Name
	out.Since, out.Detail = a.at(worst.Since), printable.Lines(worst.Detail, printable.Long)
	return out
}

func (a *Answers) at(turn uint64) *time.Time {
	at, known := a.o.Streams.PublishedAt(turn)
	if !known {
		return nil
	}
	at = at.UTC()
	return &at
}
