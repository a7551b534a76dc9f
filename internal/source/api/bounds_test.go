package api

import (
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"testing"
)

// A body that would be far larger once it is decoded is refused before it is; so are more ports than there may be.
func TestBodiesAreWeighed(t *testing.T) {
	s, err := New("Memory/api", Options{MaxPorts: 5}, slog.New(slog.DiscardHandler), nil)
	if err != nil {
		t.Fatal(err)
	}
	r, err := http.NewRequest(http.MethodPut, "http://localhost/v1/snapshot", strings.NewReader(
		`{"services":[`+strings.TrimSuffix(strings.Repeat("{},", 1_000_000), ",")+`]}`))
	if err != nil {
		t.Fatal(err)
	}
	var why *Refusal
	if _, _, err := s.body(nil, r, 64); !errors.As(err, &why) || why.Status != http.StatusRequestEntityTooLarge {
		t.Errorf("it is decoded: %v", err)
	}
	for i := range 3 {
		_, err = s.PutService(Service{Namespace: "shop", Name: fmt.Sprint("s", i), Instances: Instances{
			{ID: "a", Addresses: []string{"10.0.0.1"}, Ports: Ports{{Number: 80}, {Number: 81}}},
		}}, Condition{})
		if (err != nil) != (i == 2) {
			t.Errorf("service %d: %v", i, err)
		}
	}
	if err == nil || !strings.Contains(err.Error(), "6 ports of at most 5 (maxPorts)") {
		t.Error(err)
	}
	if _, err := s.DeleteService("shop", "s0", Condition{}); err != nil {
		t.Fatal(err)
	}
	if s.book.Amount().Ports != 2 {
		t.Errorf("%d ports are counted, want 2", s.book.Amount().Ports)
	}
}
