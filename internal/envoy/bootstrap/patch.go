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
	Order string           // patches are merged in the order of these texts
	Value *structpb.Struct // a part of a config.bootstrap.v3.Bootstrap in JSON
}

// The fields of an encoded patch.
const (
	patchOrder = "order"
	patchValue = "value"
)

// Encode returns the resource of a patch; equal patches have equal bytes. It fails if a text is not UTF-8.
func (p Patch) Encode() ([]byte, error) {
	return proto.MarshalOptions{Deterministic: true}.Marshal(&structpb.Struct{Fields: map[string]*structpb.Value{
		patchOrder: structpb.NewStringValue(p.Order), patchValue: structpb.NewStructValue(p.Value),
	}})
}

// DecodePatch decodes the output of Encode.
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

// PatchReportType is the type of the request that an agent sends to report the patches that its Envoy cannot run with. error_detail holds
// the output of EncodePatchReport; if it is missing, no patch fails any more.
const PatchReportType = "type.googleapis.com/fairway.v1.BootstrapPatchesFailing"

// Bounds of a report: a control plane keeps 1 KiB of an error_detail.
const (
	reportBytes = 1000
	reportWhy   = 400
)

// EncodePatchReport returns why patches, by resource name, cannot run: as many as fit, in the order of their names. It returns the empty
// text if none fail.
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

// reportMark separates a patch's name, which has no spaces, from the reason why it cannot run.
const reportMark = ": "

// DecodePatchReport decodes the output of EncodePatchReport; it skips lines of another form.
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
