package reached

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"fairway/internal/config"
	"fairway/internal/printable"
)

// Bounds of the text that a control plane shares.
const (
	mostMentioned = 200 // objects that are pending, and as many that are live
	mostText      = 256 << 10
)

// shared is the text of one control plane.
type shared struct {
	Objects []mention `json:"objects"`        // that changed
	More    bool      `json:"more,omitempty"` // more are pending than there are here
}

// mention is how far an object is on the proxies of one control plane.
type mention struct {
	Object     string  `json:"object"` // Kind/namespace/name
	Generation int64   `json:"generation"`
	Outcome    Outcome `json:"outcome"`
	Count      Count   `json:"count,omitzero"` // of the outcome
}

// peer is the last state of another control plane.
type peer struct {
	mentions map[config.Key]mention
	more     bool
}

// of returns how far an object is there; false: it is not mentioned.
func (p peer) of(k config.Key, generation int64) (of Outcome, count Count, mentioned bool) {
	m, is := p.mentions[k]
	if is && m.Generation < generation {
		return Unknown, Count{}, true // it has not read that one
	}
	return m.Outcome, m.Count, is
}

// text returns what this control plane shares: the oldest of the pending objects, and those that became live last.
func (t *Tracker) text() string {
	t.mu.Lock()
	out := shared{Objects: slices.Clone(t.recent), More: len(t.pending) > mostMentioned}
	keys := slices.SortedFunc(maps.Keys(t.pending), func(a, b config.Key) int {
		return cmp.Or(t.pending[a].since.Compare(t.pending[b].since), config.CompareKey(a, b))
	})
	for _, k := range keys[:min(len(keys), mostMentioned)] {
		v := t.pending[k]
		out.Objects = append(out.Objects, mention{nameOf(k), v.generation, v.outcome, v.count})
	}
	t.mu.Unlock()
	text := encode(out)
	if len(text) > mostText {
		for i := range out.Objects {
			out.Objects[i].Count.First, out.Objects[i].Count.What = "", ""
		}
		text = encode(out)
	}
	return text
}

func encode(s shared) string {
	text, err := json.Marshal(s)
	if err != nil {
		return "" // texts and numbers: it does not fail
	}
	return string(text)
}

// nameOf returns an object's name in the text.
func nameOf(k config.Key) string { return string(k.Kind) + "/" + k.Namespace + "/" + k.Name }

// parse reads the text of another control plane. It trusts no part of the text. If the text mentions an object twice, the last mention
// counts.
func parse(text string) (out peer, err error) {
	if text == "" {
		return out, nil
	}
	if len(text) > mostText {
		return out, fmt.Errorf("it has %d bytes, more than %d", len(text), mostText)
	}
	var s shared
	if err := json.Unmarshal([]byte(text), &s); err != nil {
		return out, fmt.Errorf("its content cannot be read: %w", err)
	}
	if len(s.Objects) > 2*mostMentioned {
		return out, fmt.Errorf("it mentions %d objects, more than %d", len(s.Objects), 2*mostMentioned)
	}
	out = peer{mentions: map[config.Key]mention{}, more: s.More}
	for _, m := range s.Objects {
		parts := strings.Split(m.Object, "/")
		if len(parts) != 3 || m.Outcome < Unknown || m.Outcome > Refused {
			return peer{}, fmt.Errorf("it mentions %.100q with outcome %d: want Kind/namespace/name, and 0 to 3", m.Object, m.Outcome)
		}
		if m.Count.Proxies < 0 || m.Count.Without < 0 || m.Count.Silent < 0 || m.Count.Warming < 0 {
			return peer{}, fmt.Errorf("it counts a negative number of proxies for %.100q", m.Object)
		}
		m.Count.First, m.Count.What = printable.Text(m.Count.First, mostName), printable.Text(m.Count.What, mostWhat)
		out.mentions[config.Key{Kind: config.Kind(parts[0]), Namespace: parts[1], Name: parts[2]}] = m
	}
	return out, nil
}
