package live

import "encoding/binary"

// WasmModule is the smallest module that Envoy runs as a filter of requests: it adds a header (proxy-wasm ABI 0.2.1,
// https://github.com/proxy-wasm/spec).
func WasmModule(header, value string) []byte {
	const at = 1024 // of the texts in its memory
	add := code(
		i32(0), // the map of a request's headers
		i32(at), i32(len(header)), i32(at+len(header)), i32(len(value)),
		[]byte{0x10, 0}, // call the imported function
		[]byte{0x1a},    // drop its result
		i32(0),          // go on
	)
	out := []byte{0, 'a', 's', 'm', 1, 0, 0, 0}
	section := func(id byte, entries ...[]byte) {
		body := count(len(entries))
		for _, e := range entries {
			body = append(body, e...)
		}
		out = append(append(append(out, id), count(len(body))...), body...)
	}
	const i = 0x7f // the type i32
	section(
		1, // types
		[]byte{0x60, 0, 0},
		[]byte{0x60, 1, i, 1, i},
		[]byte{0x60, 5, i, i, i, i, i, 1, i},
		[]byte{0x60, 2, i, i, 0},
		[]byte{0x60, 3, i, i, i, 1, i},
	)
	section(2, append(append(name("env"), name("proxy_add_header_map_value")...), 0, 2))
	section(3, []byte{0}, []byte{1}, []byte{3}, []byte{4}) // the types of its functions, which are numbered from 1 on
	section(5, []byte{0, 1})                               // one page of memory
	section(
		7, // exports
		append(name("memory"), 2, 0),
		append(name("proxy_abi_version_0_2_1"), 0, 1),
		append(name("proxy_on_memory_allocate"), 0, 2),
		append(name("proxy_on_context_create"), 0, 3),
		append(name("proxy_on_request_headers"), 0, 4),
	)
	section(10, code(), code(i32(4096)), code(), add)
	texts := append(append([]byte{0}, i32(at)...), 0x0b)
	section(11, append(append(texts, count(len(header+value))...), header+value...))
	return out
}

func count(n int) []byte { return binary.AppendUvarint(nil, uint64(n)) }

func name(s string) []byte { return append(count(len(s)), s...) }

// i32 is the instruction that gives a number that is not negative (LEB128, signed).
func i32(n int) []byte {
	out := []byte{0x41}
	for ; n > 63; n >>= 7 {
		out = append(out, byte(n&0x7f)|0x80)
	}
	return append(out, byte(n))
}

// code is a function without variables of its own.
func code(instructions ...[]byte) []byte {
	body := []byte{0}
	for _, i := range instructions {
		body = append(body, i...)
	}
	body = append(body, 0x0b)
	return append(count(len(body)), body...)
}
