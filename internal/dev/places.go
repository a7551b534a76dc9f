package dev

import (
	"errors"
	"fmt"
	"net/netip"
	"strconv"
	"strings"

	"fairway/internal/dev/folder"
)

// Places where workloads are: each has a loopback address, so that no two proxies want the same port.
const (
	mostWorkloads = 200
	inbound       = 19080 // ports that proxies get if they are free
	outbound      = 19081
)

// firstAddress is the address of the first place.
var firstAddress = netip.AddrFrom4([4]byte{127, 77, 0, 1})

// places are the places that are taken, by address and by the name of the workload.
type places struct {
	addresses map[string]bool
	numbers   map[string]bool // workloads
}

func newPlaces() *places { return &places{addresses: map[string]bool{}, numbers: map[string]bool{}} }

// take finds a place for a workload: the one that it had, if that is free.
func (p *places) take(w folder.Workload) (folder.Place, error) {
	at := folder.Place{Namespace: namespace}
	if !w.Gateway {
		at.Host = full(w.Name)
	}
	if was := w.Was; was != nil && p.free(was.Address, was.Workload) && isNumbered(was.Workload, w.Name) {
		at.Workload, at.Address, at.Inbound, at.Outbound = was.Workload, was.Address, was.Inbound, was.Outbound
		p.hold(at)
		return at, nil
	}
	for n := 1; at.Workload == "" && n <= mostWorkloads; n++ {
		if name := fmt.Sprintf("%s-%d", w.Name, n); !p.numbers[name] {
			at.Workload = name
		}
	}
	address := firstAddress
	for range mostWorkloads {
		if at.Workload != "" && !p.addresses[address.String()] {
			at.Address = address.String()
			break
		}
		address = address.Next()
	}
	if at.Address == "" {
		return at, fmt.Errorf("%d workloads have joined, the most that may", mostWorkloads)
	}
	if !w.Gateway {
		var err, more error
		at.Inbound, err = folder.FreePort(at.Address, inbound)
		at.Outbound, more = folder.FreePort(at.Address, outbound)
		if err := errors.Join(err, more); err != nil {
			return at, fmt.Errorf("find ports at %s: %w", at.Address, err)
		}
	}
	p.hold(at)
	return at, nil
}

func (p *places) free(address, workload string) bool {
	a, err := netip.ParseAddr(address)
	return err == nil && a.IsLoopback() && !p.addresses[address] && !p.numbers[workload]
}

func (p *places) hold(at folder.Place) {
	p.addresses[at.Address], p.numbers[at.Workload] = true, true
}

func (p *places) leave(at folder.Place) {
	delete(p.addresses, at.Address)
	delete(p.numbers, at.Workload)
}

// isNumbered reports whether a workload's name is that of its service with a number.
func isNumbered(workload, name string) bool {
	number, has := strings.CutPrefix(workload, name+"-")
	n, err := strconv.Atoi(number)
	return has && err == nil && n >= 1 && n <= mostWorkloads
}
