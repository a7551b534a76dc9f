package main

import (
	"fmt"
	"io"
)

// The formula of docs/operate/sizing.md: the memory of a control plane in MB, once all proxies are connected.
const (
	baseMB     = 55
	serviceKB  = 38
	endpointKB = 2.3
	clientKB   = 70
)

// sizingShapes are measured by -sizing: small, medium and large meshes, and one where proxies outnumber services.
const sizingShapes = "50x5x100,500x5x1000,1000x5x2000,5000x5x500"

// predicted returns what the formula says for a shape, in MB.
func predicted(s shape) float64 {
	return baseMB + (serviceKB*float64(s.Services)+endpointKB*float64(s.Services*s.Endpoints)+clientKB*float64(s.Clients))/1000
}

// printSizing prints the rows of the tables of docs/operate/sizing.md.
func printSizing(to io.Writer, results []result) {
	fmt.Fprintln(to, "\n| services × endpoints each × proxies | by the formula | measured | error | peak, while everything connects |")
	fmt.Fprintln(to, "|---|---|---|---|---|")
	for _, r := range results {
		fmt.Fprintln(to, sizingRow(r.Shape, r.RSS, r.Peak))
	}
	fmt.Fprintln(to, "\n| services × endpoints each × proxies | all connect | one route changed | one endpoint changed |")
	fmt.Fprintln(to, "|---|---|---|---|")
	for _, r := range results {
		fmt.Fprintf(to, "| %s | %.2f s |", sizingName(r.Shape), r.SyncCPU)
		for _, name := range []string{"one route changed", "one endpoint changed"} {
			for _, c := range r.Changes {
				if c.Name == name {
					fmt.Fprintf(to, " %.0f ms |", 1000*c.CPU)
				}
			}
		}
		fmt.Fprintln(to)
	}
}

// sizingRow returns a shape's row of the table of memory: measured and peak are in MB.
func sizingRow(s shape, measured, peak float64) string {
	by := predicted(s)
	return fmt.Sprintf("| %s | %s MB | %s MB | %+.0f %% | %s MB |", sizingName(s), thousands(by), thousands(measured),
		100*(by-measured)/measured, thousands(peak))
}

func sizingName(s shape) string {
	return fmt.Sprintf("%s × %d × %s", thousands(float64(s.Services)), s.Endpoints, thousands(float64(s.Clients)))
}

// thousands writes a number as readers do: 1,697.
func thousands(n float64) string {
	rounded := int(n + 0.5)
	if rounded < 1000 {
		return fmt.Sprint(rounded)
	}
	return fmt.Sprintf("%d,%03d", rounded/1000, rounded%1000)
}
