package wire

import "google.golang.org/protobuf/encoding/protowire"

// Versioned is the name of a resource with its version.
type Versioned struct{ Name, Version string }

// fields calls do for each length-delimited field, with where its value begins; others are passed over.
func fields(raw []byte, do func(num protowire.Number, at int, value []byte) error) error {
	for at := 0; at < len(raw); {
		num, typ, n := protowire.ConsumeTag(raw[at:])
		if n < 0 {
			return protowire.ParseError(n)
		}
		at += n
		if typ != protowire.BytesType {
			if n = protowire.ConsumeFieldValue(num, typ, raw[at:]); n < 0 {
				return protowire.ParseError(n)
			}
			at += n
			continue
		}
		value, n := protowire.ConsumeBytes(raw[at:])
		if n < 0 {
			return protowire.ParseError(n)
		}
		at += n
		if err := do(num, at-len(value), value); err != nil {
			return err
		}
	}
	return nil
}

func decodeVersioned(raw []byte, name, version protowire.Number) (v Versioned, err error) {
	err = fields(raw, func(num protowire.Number, _ int, value []byte) error {
		switch num {
		case name:
			v.Name = string(value)
		case version:
			v.Version = string(value)
		}
		return nil
	})
	return v, err
}

func appendField[T string | []byte](to []byte, num protowire.Number, value T) []byte {
	to = protowire.AppendTag(to, num, protowire.BytesType)
	to = protowire.AppendVarint(to, uint64(len(value)))
	return append(to, value...)
}
