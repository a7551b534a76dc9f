package exposition

import (
	"bufio"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// sums holds samples until all of their family have come: those that differed only in a label that is not written are one series
// now, and an exposition may have a series only once.
type sums struct {
	order []*sample
	of    map[string]*sample
}

type sample struct {
	series, value string
	sum           float64
	added         bool // more of the series has come than value
}

// add adds a sample; it returns false if the sample has more than labels and a value, and cannot be added up.
func (s *sums) add(name, rest string) bool {
	end := strings.LastIndexByte(rest, ' ')
	if end < 0 || end > 0 && rest[end-1] != '}' {
		return false
	}
	series, value := name+rest[:end], rest[end+1:]
	number, err := strconv.ParseFloat(value, 64)
	if err != nil {
		return false
	}
	if one, again := s.of[series]; again {
		one.sum, one.added = one.sum+number, true
		return true
	}
	if s.of == nil {
		s.of = map[string]*sample{}
	}
	one := &sample{series: series, value: value, sum: number}
	s.order, s.of[series] = append(s.order, one), one
	return true
}

// release writes the samples, in their order.
func (s *sums) release(out *bufio.Writer) {
	for _, one := range s.order {
		fmt.Fprint(out, one.series, " ", one.total(), "\n")
	}
	s.order = slices.Delete(s.order, 0, len(s.order))
	clear(s.of)
}

// total returns the sum of the samples, or the value as it came if there is only one.
func (o *sample) total() string {
	if !o.added {
		return o.value
	}
	return strconv.FormatFloat(o.sum, 'f', -1, 64)
}
