package bootstrap

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/structpb"

	"fairway/internal/printable"
)

// Patch is a part of a bootstrap that is merged over it.
type Patch struct {
	Order string           // its place among others: they are merged in the order of these texts
	Value *structpb.Struct // a part of a config.bootstrap.v3.Bootstrap in JSON
}

// The fields of an encoded patch.
const (
	patchOrder = "order"
	patchValue = "value"
)

// Encode gives the resource of a patch; equal patches have equal bytes. It fails where a text is no UTF-8.
func (p Patch) Encode() ([]byte, error) {
	return proto.MarshalOptions{Deterministic: true}.Marshal(&structpb.Struct{Fields: map[string]*structpb.Value{
		patchOrder: structpb.NewStringValue(p.Order), patchValue: structpb.NewStructValue(p.Value),
	}})
}

// DecodePatch reads what Encode gave.
func DecodePatch(body []byte) (Patch, error) {
	var s structpb.Struct
	if err := proto.Unmarshal(body, &s); err != nil {
		return Patch{}, fmt.Errorf("read the patch: %w", err)
	}
	value := s.GetFields()[patchValue].GetStructValue()
	if value == nil {
		return Patch{}, errors.New("it has no value that is an object")
	}
	return Patch{s.GetFields()[patchOrder].GetStringValue(), value}, nil
}

// PatchReportType is the type of the request by which an agent tells which patches its Envoy cannot run with:
// error_detail holds what EncodePatchReport gives; without error_detail there are none any more.
const PatchReportType = "type.googleapis.com/fairway.v1.BootstrapPatchesFailing"

// Bounds of a report: a control plane keeps 1 KiB of an error_detail.
const (
	reportBytes = 1000
	reportWhy   = 400
)

// EncodePatchReport writes why patches, by resource name, cannot run: as many as there is room for, the first by name.
// Nothing is the empty text.
func EncodePatchReport(failing map[string]string) string {
	var out strings.Builder
	for _, name := range slices.Sorted(maps.Keys(failing)) {
		why := printable.Text(strings.Join(strings.Fields(failing[name]), " "), reportWhy)
		if line := name + reportMark + why + "\n"; out.Len()+len(line) <= reportBytes {
			out.WriteString(line)
		}
	}
	return out.String()
}

// reportMark stands between a patch's name, which has no spaces, and why it cannot run.
const reportMark = ": "

// DecodePatchReport reads what EncodePatchReport gave; lines of another form are passed over.
func DecodePatchReport(text string) map[string]string {
	out := map[string]string{}
	for line := range strings.Lines(text) {
		if name, why, ok := strings.Cut(strings.TrimSuffix(line, "\n"), reportMark); ok && name != "" &&
			len(out) < reportBytes/len(reportMark) {
			out[name] = why
		}
	}
	return out
}
