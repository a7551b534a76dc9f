package paged

import (
	"fmt"
	"testing"
)

func TestPaged(t *testing.T) {
	var p Array[int]
	if p.At(0) != nil || p.At(1000) != nil {
		t.Error("an empty one has places")
	}
	for _, id := range []uint32{3, 70, Size - 1, Size} {
		*p.Make(id) = int(id)
	}
	if p.At(3) == nil || *p.At(3) != 3 || *p.At(70) != 70 || *p.At(4) != 0 || p.At(71+Size) != nil {
		t.Error("places are mixed up")
	}
	var seen []int
	for at := range p.Each() {
		if *at != 0 {
			seen = append(seen, *at)
		}
	}
	if got := fmt.Sprint(seen); got != "[3 31 32 70]" {
		t.Errorf("yields %s", got)
	}
}
