package amend

import (
	"strconv"
	"strings"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// checkValue returns an error if the value, or a message packed in it, sets an invalid field: Envoy would refuse it wherever it is put.
// Missing required fields do not count, because the message that the value is merged into has them. The length of a list does not count
// either, because the merged list is longer.
func (p *Patch) checkValue() error {
	if err := invalid(p.value); err != nil {
		return err
	}
	var first error
	for _, m := range p.sources { // which are in no order
		if err := invalid(m); err != nil && (first == nil || err.Error() < first.Error()) {
			first = err
		}
	}
	return first
}

func invalid(m proto.Message) error {
	v, ok := m.(interface{ ValidateAll() error })
	if !ok {
		return nil
	}
	return setsInvalid(m.ProtoReflect(), v.ValidateAll())
}

// setsInvalid returns the part of an error of generated validation that is about a field which the message sets.
func setsInvalid(m protoreflect.Message, err error) error {
	if many, ok := err.(interface{ AllErrors() []error }); ok {
		for _, one := range many.AllErrors() {
			if err := setsInvalid(m, one); err != nil {
				return err
			}
		}
		return nil
	}
	one, ok := err.(interface {
		Field() string
		Cause() error
	})
	if !ok {
		return err
	}
	name, index, inList := strings.Cut(strings.TrimSuffix(one.Field(), "]"), "[")
	fd := fieldNamed(m, name)
	switch {
	case fd == nil || !m.Has(fd) || fd.IsList() && !inList:
		return nil
	case one.Cause() == nil || fd.Message() == nil || fd.IsMap():
		return err
	case !fd.IsList():
		return setsInvalid(m.Get(fd).Message(), one.Cause())
	}
	at, failed := strconv.Atoi(index)
	list := m.Get(fd).List()
	if failed != nil || at < 0 || at >= list.Len() {
		return err
	}
	return setsInvalid(list.Get(at).Message(), one.Cause())
}

// fieldNamed finds a field by its name in Go; nil: it is a oneof's.
func fieldNamed(m protoreflect.Message, name string) protoreflect.FieldDescriptor {
	fields := m.Descriptor().Fields()
	for i := range fields.Len() {
		if strings.EqualFold(strings.ReplaceAll(string(fields.Get(i).Name()), "_", ""), strings.ReplaceAll(name, "_", "")) {
			return fields.Get(i)
		}
	}
	return nil
}
