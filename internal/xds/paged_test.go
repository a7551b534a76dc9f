package xds

import (
	"fmt"
	"testing"
)

func TestPaged(t *testing.T) {
	var p paged[int]
	if p.at(0) != nil || p.at(1000) != nil {
		t.Error("an empty one has places")
	}
	for _, id := range []uint32{3, 70, pageSize - 1, pageSize} {
		*p.make(id) = int(id)
	}
	if p.at(3) == nil || *p.at(3) != 3 || *p.at(70) != 70 || *p.at(4) != 0 || p.at(71+pageSize) != nil {
		t.Error("places are mixed up")
	}
	var seen []int
	for at := range p.each() {
		if *at != 0 {
			seen = append(seen, *at)
		}
	}
	if got := fmt.Sprint(seen); got != "[3 31 32 70]" {
		t.Errorf("yields %s", got)
	}
}
