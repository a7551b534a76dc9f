package nomad

import (
	"errors"
	"io"
	"strings"
	"testing"

	"fairway/internal/source/platform"
)

// FuzzHappenings: reading any stream of events ends, and its content can be kept and made into rows.
func FuzzHappenings(f *testing.F) {
	const registration = `{"ID":"r","ServiceName":"web","Namespace":"default","Address":"10.0.0.1","Port":80,"Tags":["a=b","weight=x","\n"]}`
	for _, seed := range []string{
		`{}` + "\n" + `{"Index":7,"Events":[{"Topic":"Service","Type":"ServiceRegistration","Payload":{"Service":` + registration + `}}]}`,
		`{"Index":"7"}`, `{"Events":[{"Payload":null}]}`, `{"Events":{}}`, `{"Index":18446744073709551616}`, `[`, `{"Events":[` + registration,
		`{"Events":[{"Payload":{"Service":{"ServiceName":"` + strings.Repeat("x", 600) + `","ID":"a","Port":-1}}}]}`,
	} {
		f.Add(seed)
	}
	rows := platform.NewTranslator("Nomad/test", platform.Naming{}, defaultHost)
	f.Fuzz(func(t *testing.T, text string) {
		s := platform.NewStream(&lines{from: strings.NewReader(text)})
		for n := 0; ; n++ {
			h, err := readHappening(s)
			if err != nil {
				if errors.Is(err, io.EOF) && n > len(text) {
					t.Errorf("%d events of %d bytes", n, len(text))
				}
				return
			}
			for _, e := range h.events {
				if e.record == nil {
					continue
				}
				if e.record.Bytes() <= 0 {
					t.Errorf("%+v costs nothing", e.record)
				}
				made, _ := serviceOf("Nomad/test", e.record.of, []*record{e.record})
				rows.Rows(made)
			}
		}
	})
}
