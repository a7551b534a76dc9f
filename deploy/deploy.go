// Package deploy is what puts Fairway into a cluster: the chart, which pilotctl carries, and the Dockerfiles of its images.
//
// The chart's CRDs are those that istio.io/api publishes. They are taken out of the module when the project is built (`make schemas`) and
// never copied into the tree. The package must not know what the chart is made with, nor how it is installed.
package deploy

import (
	"embed"
	"errors"
	"fmt"
	"io/fs"
)

//go:generate go run fairway/internal/config/schemas/gen -published chart/crds/istio.gen.yaml

//go:embed all:chart
var files embed.FS

// ErrMissing says that the program was built without the CRDs.
var ErrMissing = errors.New("this program was built without Istio's CRDs, which `go build` alone does not get: build it with `make build`")

// published is where the CRDs are in the chart.
const published = "crds/istio.gen.yaml"

// Chart holds the chart's files: its Chart.yaml is at the top.
func Chart() fs.FS {
	out, err := fs.Sub(files, "chart")
	if err != nil {
		panic(err) // the folder is embedded above
	}
	return out
}

// CRDs are the published definitions of Istio's kinds, as YAML of several documents. A build without them gives ErrMissing.
func CRDs() ([]byte, error) {
	text, err := fs.ReadFile(Chart(), published)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, ErrMissing
	}
	if err != nil {
		return nil, fmt.Errorf("read the CRDs: %w", err)
	}
	return text, nil
}
