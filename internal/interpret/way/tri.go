package way

// Tri is the result of a condition: it may be unknown.
type Tri uint8

const (
	No Tri = iota
	Yes
	Unsure
)

func Of(b bool) Tri {
	if b {
		return Yes
	}
	return No
}

func (t Tri) Not() Tri {
	switch t {
	case No:
		return Yes
	case Yes:
		return No
	}
	return Unsure
}

// invert is not, if it is asked for.
func (t Tri) Invert(asked bool) Tri {
	if asked {
		return t.Not()
	}
	return t
}

// All is yes if every part is, and any if one part is; parts after the first that decides are not evaluated.
func All(n int, part func(int) Tri) Tri {
	out := Yes
	for i := range n {
		switch part(i) {
		case No:
			return No
		case Unsure:
			out = Unsure
		}
	}
	return out
}

func Any(n int, part func(int) Tri) Tri {
	return All(n, func(i int) Tri { return part(i).Not() }).Not()
}
