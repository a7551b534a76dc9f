package main

import (
	"slices"
	"strings"
	"testing"
)

// TestAlternate: two programs run in turn, neither always first; the output has their medians and the ratio.
func TestAlternate(t *testing.T) {
	var order []string
	took := map[string][]float64{"new": {6, 2, 4}, "old": {1, 9, 2}}
	got, err := alternate(3, func(binary string) (result, error) {
		order = append(order, binary)
		at := len(took[binary]) - 1
		cpu := took[binary][at]
		took[binary] = took[binary][:at]
		return result{SyncCPU: cpu, Changes: []change{{Name: "one route", Rows: 10 * cpu}}, Restart: &restart{CPU: cpu}}, nil
	}, "new", "old")
	if err != nil {
		t.Fatal(err)
	}
	if want := []string{"new", "old", "old", "new", "new", "old"}; !slices.Equal(order, want) {
		t.Errorf("the order is %v, want %v", order, want)
	}
	if got[0].SyncCPU != 4 || got[1].SyncCPU != 2 || got[0].Changes[0].Rows != 40 || got[1].Restart.CPU != 2 {
		t.Errorf("medians: %+v", got)
	}
	var text strings.Builder
	compare(&text, got[0], got[1])
	if !slices.ContainsFunc(strings.Split(text.String(), "\n"), func(line string) bool {
		return slices.Equal(strings.Fields(line), strings.Fields("all clients synced, s CPU 4 2 2.00"))
	}) {
		t.Errorf("nothing says how the programs compare:\n%s", &text)
	}
}
