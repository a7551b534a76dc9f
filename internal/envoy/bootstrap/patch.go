package bootstrap

import (
	"errors"
	"fmt"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/structpb"
)

// PatchType is the type of the resources by which a control plane tells agents what to change in bootstraps.
const PatchType = "type.googleapis.com/google.protobuf.Struct"

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
