package intercept

import (
	"net/netip"
	"strings"

	"github.com/google/nftables/binaryutil"
	"github.com/google/nftables/expr"
	"golang.org/x/sys/unix"
)

// nftExprs returns the expressions that nft would make of nftRule's text.
func nftExprs(f Family, r Rule) []expr.Any {
	var out []expr.Any
	if r.Source.IsValid() {
		out = append(out, address(f, r.Source, false, false)...)
	}
	if r.Dest.IsValid() {
		out = append(out, address(f, r.Dest, true, r.NotDest)...)
	}
	if r.In != "" {
		out = append(out, meta(expr.MetaKeyIIFNAME, interfaceData(r.In), false)...)
	}
	if r.Out != "" {
		out = append(out, meta(expr.MetaKeyOIFNAME, interfaceData(r.Out), false)...)
	}
	if r.Proto != "" {
		out = append(out, meta(expr.MetaKeyL4PROTO, []byte{protocolNumber(r.Proto)}, false)...)
	}
	if r.SourcePort != 0 {
		out = append(out, port(r.SourcePort, 0, false)...)
	}
	if r.Port != 0 {
		out = append(out, port(r.Port, 2, r.NotPort)...)
	}
	for _, o := range r.Owners {
		key := expr.MetaKeySKUID
		if o.Group {
			key = expr.MetaKeySKGID
		}
		out = append(out, meta(key, native(o.ID), o.Not)...)
	}
	if r.Mark != nil {
		out = append(out, meta(expr.MetaKeyMARK, native(r.Mark.Value), r.Mark.Not)...)
	}
	if r.ConnMark != nil {
		out = append(out, &expr.Ct{Key: expr.CtKeyMARK, Register: 1}, compare(native(r.ConnMark.Value), r.ConnMark.Not))
	}
	out = append(out, stateExprs(r.State)...)
	return append(out, actionExprs(f, r.Do)...)
}

func protocolNumber(p Proto) byte {
	if p == UDP {
		return unix.IPPROTO_UDP
	}
	return unix.IPPROTO_TCP
}

// native returns a number as the kernel keeps it in a register: in the machine's byte order.
func native(n uint32) []byte { return binaryutil.NativeEndian.PutUint32(n) }

func compare(data []byte, not bool) *expr.Cmp {
	op := expr.CmpOpEq
	if not {
		op = expr.CmpOpNeq
	}
	return &expr.Cmp{Op: op, Register: 1, Data: data}
}

func meta(key expr.MetaKey, data []byte, not bool) []expr.Any {
	return []expr.Any{&expr.Meta{Key: key, Register: 1}, compare(data, not)}
}

// interfaceData returns a whole name with its terminating zero, or the beginning of names.
func interfaceData(name string) []byte {
	if prefix, ok := strings.CutSuffix(name, "+"); ok {
		return []byte(prefix)
	}
	data := make([]byte, unix.IFNAMSIZ)
	copy(data, name)
	return data
}

func port(number uint16, offset uint32, not bool) []expr.Any {
	return []expr.Any{
		&expr.Payload{DestRegister: 1, Base: expr.PayloadBaseTransportHeader, Offset: offset, Len: 2},
		compare(binaryutil.BigEndian.PutUint16(number), not),
	}
}

// address compares one of a header's addresses: RFC 791, 3.1 and RFC 8200, 3 have the offsets.
func address(f Family, p netip.Prefix, dest, not bool) []expr.Any {
	length, offset := uint32(4), uint32(12)
	if f == IPv6 {
		length, offset = 16, 8
	}
	if dest {
		offset += length
	}
	out := []expr.Any{&expr.Payload{DestRegister: 1, Base: expr.PayloadBaseNetworkHeader, Offset: offset, Len: length}}
	if p.Bits() < p.Addr().BitLen() {
		out = append(out,
			&expr.Bitwise{SourceRegister: 1, DestRegister: 1, Len: length, Mask: mask(p.Bits(), int(length)), Xor: make([]byte, length)})
	}
	return append(out, compare(p.Addr().AsSlice(), not))
}

func mask(bits, length int) []byte {
	out := make([]byte, length)
	for i := range bits {
		out[i/8] |= 0x80 >> (i % 8)
	}
	return out
}

func stateExprs(s State) []expr.Any {
	var bits uint32
	switch s {
	case Established:
		bits = expr.CtStateBitESTABLISHED | expr.CtStateBitRELATED
	case Invalid:
		bits = expr.CtStateBitINVALID
	default:
		return nil
	}
	return []expr.Any{
		&expr.Ct{Key: expr.CtKeySTATE, Register: 1},
		&expr.Bitwise{SourceRegister: 1, DestRegister: 1, Len: 4, Mask: native(bits), Xor: make([]byte, 4)},
		compare(make([]byte, 4), true),
	}
}

func actionExprs(f Family, a Action) []expr.Any {
	number := &expr.Immediate{Register: 1, Data: native(a.Value)}
	setMark := &expr.Meta{Key: expr.MetaKeyMARK, SourceRegister: true, Register: 1}
	switch a.Verb {
	case Drop:
		return []expr.Any{&expr.Verdict{Kind: expr.VerdictDrop}}
	case RedirectTo:
		return []expr.Any{portData(a.Value), &expr.Redir{RegisterProtoMin: 1}}
	case TProxyTo:
		family := byte(unix.NFPROTO_IPV4)
		if f == IPv6 {
			family = unix.NFPROTO_IPV6
		}
		return []expr.Any{
			portData(a.Value), &expr.TProxy{Family: family, TableFamily: family, RegPort: 1},
			&expr.Immediate{Register: 1, Data: native(a.Mark)}, setMark,
		}
	case SetMark:
		return []expr.Any{number, setMark}
	case SaveMark:
		return []expr.Any{&expr.Meta{Key: expr.MetaKeyMARK, Register: 1}, &expr.Ct{Key: expr.CtKeyMARK, SourceRegister: true, Register: 1}}
	case RestoreMark:
		return []expr.Any{&expr.Ct{Key: expr.CtKeyMARK, Register: 1}, setMark}
	case SetZone:
		zone := &expr.Immediate{Register: 1, Data: binaryutil.NativeEndian.PutUint16(uint16(a.Value))}
		return []expr.Any{zone, &expr.Ct{Key: expr.CtKeyZONE, SourceRegister: true, Register: 1}}
	default:
		return []expr.Any{&expr.Verdict{Kind: expr.VerdictReturn}}
	}
}

func portData(number uint32) *expr.Immediate {
	return &expr.Immediate{Register: 1, Data: binaryutil.BigEndian.PutUint16(uint16(number))}
}
