package main

import (
	"fmt"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// rowPattern matches a row of the table of memory in docs/operate/sizing.md.
var rowPattern = regexp.MustCompile(`(?m)^\| ([\d,]+) × (\d+) × ([\d,]+) \| [\d,]+ MB \| ([\d,]+) MB \| [+-]?\d+ % \| ([\d,]+) MB \|$`)

// TestSizingPage: the formula of docs/operate/sizing.md is the one of -sizing, and its rows have what the formula says, with its error.
func TestSizingPage(t *testing.T) {
	page, err := os.ReadFile("../../docs/operate/sizing.md")
	if err != nil {
		t.Fatal(err)
	}
	formula := fmt.Sprintf("> %v MB + %v KB for each service + %v KB for each endpoint + %v KB for each connected proxy",
		baseMB, serviceKB, endpointKB, clientKB)
	if !strings.Contains(string(page), formula) {
		t.Errorf("docs/operate/sizing.md has another formula than\n%s", formula)
	}
	rows := rowPattern.FindAllStringSubmatch(string(page), -1)
	if len(rows) < 4 {
		t.Fatalf("%d rows of memory were found, want at least 4", len(rows))
	}
	for _, row := range rows {
		var n []int
		for _, text := range row[1:] {
			value, err := strconv.Atoi(strings.ReplaceAll(text, ",", ""))
			if err != nil {
				t.Fatal(err)
			}
			n = append(n, value)
		}
		s := shape{Services: n[0], Endpoints: n[1], Clients: n[2]}
		if want := sizingRow(s, float64(n[3]), float64(n[4])); row[0] != want {
			t.Errorf("the page has\n%s\nwant\n%s", row[0], want)
		}
	}
}

// TestSizingTables: each shape has a row in both tables.
func TestSizingTables(t *testing.T) {
	var out strings.Builder
	printSizing(&out, []result{{
		Shape: shape{Services: 1000, Endpoints: 5, Clients: 2000}, RSS: 244, Peak: 605, SyncCPU: 5.25, Changes: []change{
			{Name: "one route changed", CPU: 0.095}, {Name: "one service added", CPU: 9}, {Name: "one endpoint changed", CPU: 0.1},
		},
	}})
	for _, want := range []string{
		"| 1,000 × 5 × 2,000 | 245 MB | 244 MB | +0 % | 605 MB |\n", "| 1,000 × 5 × 2,000 | 5.25 s | 95 ms | 100 ms |\n",
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("lacks %q:\n%s", want, &out)
		}
	}
}
