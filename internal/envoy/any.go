package envoy

import (
	"bytes"
	"errors"
	"fmt"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/anypb"
)

const (
	typePrefix = "type.googleapis.com/"
	// refused is the type of an Any that stands for a message which its own validation refused; its value is why. It
	// never leaves the program: no message that holds one is encoded.
	refused = typePrefix + "fairway.Refused"
)

// Any packs an extension's configuration, deterministically. It is validated here, once, while it is still a message:
// generated validation does not look into what is packed. What does not pass makes the message that it becomes part of
// fail in Encode.
func Any(m proto.Message) *anypb.Any {
	body, err := Marshal(m)
	if err != nil {
		return &anypb.Any{TypeUrl: refused, Value: []byte(err.Error())}
	}
	return &anypb.Any{TypeUrl: typePrefix + string(m.ProtoReflect().Descriptor().FullName()), Value: body}
}

// Bytes marshals a part of a message, which need not be valid alone, deterministically.
func Bytes(m proto.Message) ([]byte, error) {
	body, err := proto.MarshalOptions{Deterministic: true}.Marshal(m)
	if err != nil {
		return nil, fmt.Errorf("encode %s: %w", m.ProtoReflect().Descriptor().Name(), err)
	}
	return body, nil
}

// Marshal validates m and marshals it, as Encode does. The bytes are the caller's.
func Marshal(m proto.Message) ([]byte, error) {
	if err := validate(m); err != nil {
		return nil, err
	}
	body, err := Bytes(m)
	if err != nil {
		return nil, err
	}
	return body, packed(m, body)
}

// Check is Marshal of a message whose parts are encoded already, together with all that it has: it returns the error alone.
func Check(m proto.Message, parts ...[]byte) error {
	if err := validate(m); err != nil {
		return err
	}
	for _, part := range parts {
		if err := packed(m, part); err != nil {
			return err
		}
	}
	return nil
}

func validate(m proto.Message) error {
	if v, ok := m.(interface{ ValidateAll() error }); ok {
		return v.ValidateAll()
	}
	return nil
}

// packed returns why a message that is packed into m was refused. A look through the bytes costs next to nothing, one through the message
// as much as encoding it.
func packed(m proto.Message, body []byte) error {
	if !bytes.Contains(body, []byte(refused)) {
		return nil
	}
	return refusal(m.ProtoReflect())
}

// refusal is why a message packed anywhere into m was refused; nil if none was.
func refusal(m protoreflect.Message) error {
	if a, ok := m.Interface().(*anypb.Any); ok {
		if a.GetTypeUrl() == refused {
			return errors.New(string(a.GetValue()))
		}
		return nil
	}
	var errs []error
	add := func(v protoreflect.Message) { errs = append(errs, refusal(v)) }
	m.Range(func(fd protoreflect.FieldDescriptor, v protoreflect.Value) bool {
		switch {
		case fd.IsMap():
			if fd.MapValue().Message() != nil {
				v.Map().Range(func(_ protoreflect.MapKey, v protoreflect.Value) bool { add(v.Message()); return true })
			}
		case fd.Message() == nil:
		case fd.IsList():
			for i := range v.List().Len() {
				add(v.List().Get(i).Message())
			}
		default:
			add(v.Message())
		}
		return true
	})
	return errors.Join(errs...)
}
