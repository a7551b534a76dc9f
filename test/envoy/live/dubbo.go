package live

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"fairway/test/rig"
)

// Call is a request of Dubbo's protocol: of its second version, with a body by Hessian's.
type Call struct {
	Interface, Version, Method string
	Attachments                map[string]string
}

// The first bytes of Dubbo's messages, and the bytes of Hessian that are used here.
const (
	dubboMagic    = 0xdabb
	dubboRequest  = 0xc2 // a request that wants an answer, body by Hessian
	dubboResponse = 0x02
	dubboOK       = 20
	dubboHead     = 16

	hessianMap   = 'H'
	hessianEnd   = 'Z'
	hessianValue = 0x91 // 1: a value follows
)

func hessian(s string) []byte {
	if len(s) < 32 {
		return append([]byte{byte(len(s))}, s...)
	}
	return append([]byte{0x30 | byte(len(s)>>8), byte(len(s))}, s...)
}

func dubboFrame(flags, status byte, id uint64, body []byte) []byte {
	out := binary.BigEndian.AppendUint16(nil, dubboMagic)
	out = append(out, flags, status)
	out = binary.BigEndian.AppendUint64(out, id)
	out = binary.BigEndian.AppendUint32(out, uint32(len(body)))
	return append(out, body...)
}

func readDubbo(in io.Reader) (head, body []byte, err error) {
	head = make([]byte, dubboHead)
	if _, err := io.ReadFull(in, head); err != nil {
		return nil, nil, err
	}
	if binary.BigEndian.Uint16(head) != dubboMagic {
		return nil, nil, errors.New("it is not a message of Dubbo's")
	}
	size := binary.BigEndian.Uint32(head[12:])
	if size > 1<<20 {
		return nil, nil, fmt.Errorf("a body of %d bytes", size)
	}
	body = make([]byte, size)
	_, err = io.ReadFull(in, body)
	return head, body, err
}

func (c Call) frame() []byte {
	body := bytes.Join([][]byte{
		hessian("2.0.2"), hessian(c.Interface), hessian(c.Version), hessian(c.Method), hessian("Ljava/lang/String;"), hessian("world"),
		{hessianMap}, hessian("path"), hessian(c.Interface), hessian("interface"), hessian(c.Interface),
	}, nil)
	for k, v := range c.Attachments {
		body = append(append(body, hessian(k)...), hessian(v)...)
	}
	return dubboFrame(dubboRequest, 0, 7, append(body, hessianEnd))
}

// Dubbo sends a request, and returns the name of the provider that answered.
func Dubbo(address string, c Call) (string, error) {
	conn, err := net.DialTimeout("tcp", address, 5*time.Second)
	if err != nil {
		return "", err
	}
	return DubboOver(conn, c)
}

// DubboOver is Dubbo on a connection, which it closes.
func DubboOver(conn net.Conn, c Call) (string, error) {
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(rig.Bound)); err != nil {
		return "", err
	}
	if _, err := conn.Write(c.frame()); err != nil {
		return "", err
	}
	head, body, err := readDubbo(conn)
	if err != nil {
		return "", err
	}
	if id := binary.BigEndian.Uint64(head[4:]); id != 7 {
		return "", fmt.Errorf("an answer to request %d", id)
	}
	if head[3] != dubboOK || len(body) < 2 || body[0] != hessianValue {
		return "", fmt.Errorf("status %d: %q", head[3], body)
	}
	return string(body[2:]), nil
}

// DubboBackend starts a provider that answers every request with its name, at a port of the address of its name.
func (m *Mesh) DubboBackend(t testing.TB, name string, port int) {
	t.Helper()
	m.dubbo(t, name, m.Addr(name, port))
}

// DubboBackendOnLocalhost starts one at a port of 127.0.0.1 that the system chooses, and returns the port.
func (m *Mesh) DubboBackendOnLocalhost(t testing.TB, name string) (port int) {
	t.Helper()
	return m.dubbo(t, name, "127.0.0.1:0")
}

func (m *Mesh) dubbo(t testing.TB, name, address string) (port int) {
	t.Helper()
	listener, err := net.Listen("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	DubboProvider(t, listener, name)
	return listener.Addr().(*net.TCPAddr).Port
}

// DubboProvider has a provider that answers every request with its name take connections, until the test ends.
func DubboProvider(t testing.TB, listener net.Listener, name string) {
	t.Helper()
	serve(t, listener, func(conn net.Conn) {
		for {
			head, body, err := readDubbo(conn)
			if err != nil {
				return
			}
			if !strings.Contains(string(body), "world") {
				return // no request of a test's
			}
			answer := append([]byte{hessianValue}, hessian(name)...)
			if _, err := conn.Write(dubboFrame(dubboResponse, dubboOK, binary.BigEndian.Uint64(head[4:]), answer)); err != nil {
				return
			}
		}
	})
}
