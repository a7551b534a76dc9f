package mcpxds

import (
	"log/slog"
	"time"

	"fairway/internal/mcpwire"
)

// questions holds the types to ask for on a stream, and their order.
//
// A source of MCP may end a stream if it is asked for a collection that it does not know, as Istio's do, and a source that connects cannot
// even say which one. So collections that some sources do not know are asked for one after the other. If streams end while only the answer
// about one collection is awaited, that collection is in doubt, and is not asked for again for a while.
type questions struct {
	log    *slog.Logger
	doubts map[string]doubt // by type, over all streams

	// The state of the present stream.
	open  map[string]bool // asked for, and not answered
	left  []string        // to be asked for one after the other
	alone string          // that is awaited alone; empty: none is
}

// doubt says that streams end because of a type.
type doubt struct {
	ends  int       // streams in a row
	since time.Time // of the last one
}

// mostEnds is how many streams must end before a type is not asked for any more.
const mostEnds = 2

// begin starts over with a stream that will ask for some types. It returns the types to ask for at once, and those that are not asked for
// at all. careful says that nothing is known of the source but the doubts.
func (q *questions) begin(all []string, careful bool, again time.Duration) (first, never []string) {
	q.open, q.left, q.alone = map[string]bool{}, nil, ""
	for _, typ := range all {
		d, doubted := q.doubts[typ]
		if d.ends >= mostEnds {
			if time.Since(d.since) < again {
				never = append(never, typ)
				continue
			}
			q.doubts[typ] = doubt{ends: mostEnds - 1}
		}
		if doubted || careful && !mcpwire.Early(typ) {
			q.left = append(q.left, typ)
		} else {
			first = append(first, typ)
			q.open[typ] = true
		}
	}
	return first, never
}

// answered notes that a type was.
func (q *questions) answered(typ string) {
	delete(q.open, typ)
	delete(q.doubts, typ)
	if q.alone == typ {
		q.alone = ""
	}
}

// next returns the type that is to be asked for now, alone; empty: none is.
func (q *questions) next() string {
	if len(q.open) > 0 || len(q.left) == 0 {
		return ""
	}
	q.alone, q.left = q.left[0], q.left[1:]
	q.open[q.alone] = true
	return q.alone
}

// rest returns all types that are left, to be asked for at once: a source that says nothing does not end streams.
func (q *questions) rest() []string {
	out := q.left
	q.left, q.alone = nil, ""
	return out
}

// ended notes that the stream has.
func (q *questions) ended(where string) {
	if q.alone == "" {
		return
	}
	d := doubt{q.doubts[q.alone].ends + 1, time.Now()}
	if q.doubts[q.alone] = d; d.ends >= mostEnds {
		q.log.Warn("streams of the other control plane end when it is asked for a collection: it is not asked for that for now",
			"from", where, "collection", q.alone)
	}
}
