package wire

import "testing"

// FuzzMessages: what Envoy or a control plane says is read the same way again once it is written.
func FuzzMessages(f *testing.F) {
	request := Request{Node: []byte{}, Type: "t", Subscribe: []string{"a"}, Initial: []Versioned{{"a", "1"}}, Nonce: "n", Failed: true}
	f.Add(request.Encode()[0])
	f.Add(Response{Type: "t", Removed: []string{"b"}}.Encode([][]byte{EncodeResource("t", Versioned{Name: "a"}, nil)}, "n"))
	f.Add([]byte{0x0a, 0xff})
	f.Fuzz(func(t *testing.T, raw []byte) {
		if r, err := DecodeRequest(raw); err == nil {
			again, err := DecodeRequest(r.Encode()[0])
			if err != nil || again.Type != r.Type || again.Nonce != r.Nonce || len(again.Subscribe) != len(r.Subscribe) ||
				len(again.Initial) != len(r.Initial) {
				t.Fatalf("%+v becomes %+v, %v", r, again, err)
			}
		}
		if r, err := DecodeResponse(raw); err == nil {
			for _, i := range r.Items {
				if i.At < 0 || i.At+i.Size > len(raw) {
					t.Fatalf("a resource lies outside: %+v", i)
				}
			}
		}
	})
}
