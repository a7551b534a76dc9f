package mesh

// Interner keeps one copy of equal strings, so that values that thousands of pods share (labels, accounts, localities) are stored once. It
// keeps a limited number of recent strings, and drops the others: strings of strangers cannot fill it. Not more than one goroutine at a
// time may use it. The zero value is ready.
type Interner struct{ young, old map[string]string }

// internerStrings is how many strings each of the two generations holds at most.
const internerStrings = 1 << 15

// String returns s, or an equal string from an earlier call.
func (i *Interner) String(s string) string {
	if s == "" {
		return s
	}
	if have, ok := i.young[s]; ok {
		return have
	}
	if have, ok := i.old[s]; ok {
		s = have
	}
	if len(i.young) >= internerStrings {
		i.old, i.young = i.young, nil
	}
	if i.young == nil {
		i.young = map[string]string{}
	}
	i.young[s] = s
	return s
}

// Labels is MakeLabels, interned.
func (i *Interner) Labels(m map[string]string) Labels { return Labels(i.String(string(MakeLabels(m)))) }

// Len is how many strings it holds.
func (i *Interner) Len() int { return len(i.young) + len(i.old) }
