package door_test

import "testing"

// Each rule of the door is a script; bed_test.go explains its syntax. "base" is a mesh in which everything works.
const base = `
	set SE se reviews ratings; set DR dr reviews v1 v2; set GW gw; set VS vs reviews:v1 @gw
	synced
`

func TestWaitsForWhatIsMissing(t *testing.T) {
	for name, script := range map[string]string{
		"nothing waits before all sources are synced": `
			set VS vs reviews:v1
			has VS vs reviews:v1
			waits
			del VS vs
			has`,
		"a new rule waits for its host": base + `
			set VS new details
			has SE se reviews ratings; DR dr reviews v1 v2; GW gw; VS vs reviews:v1 @gw
			waits VirtualService default/new: host details.default.svc.cluster.local
			set SE details details
			last set SE details details; set VS new details
			waits`,
		"a newer version waits for its subset, the older one stays": base + `
			set VS vs reviews:v3 @gw
			waits VirtualService default/vs: subset v3 of host reviews.default.svc.cluster.local
			has SE se reviews ratings; DR dr reviews v1 v2; GW gw; VS vs reviews:v1 @gw
			set DR dr reviews v1 v2 v3
			last set DR dr reviews v1 v2 v3; set VS vs reviews:v3 @gw
			waits`,
		"gateways: short, qualified, in one's own namespace, as a DNS name, and the mesh": `
			synced
			set SE se h.example
			set VS one h.example @g1 @mesh
			set VS two h.example @other/g2
			set VS three h.example @./g3
			set VS four h.example @g4.other.svc.cluster.local
			set VS five h.example @mesh
			waits VirtualService default/one: Gateway default/g1; VirtualService default/two: Gateway other/g2; VirtualService default/three: Gateway default/g3; VirtualService default/four: Gateway other/g4
			set GW g1; set GW g3
			last set GW g1; set GW g3; set VS one h.example @g1 @mesh; set VS three h.example @./g3
			set GW other/g2; set GW other/g4
			waits`,
		"every place of a destination is seen": `
			synced
			set VS vs a.x b.x c.x d.x e.x
			waits VirtualService default/vs: host a.x, host b.x, host c.x, host d.x, host e.x`,
		"hosts are the same in any case, short ones are in the object's namespace": `
			synced
			set VS team/vs Reviews reviews.other.svc.cluster.local
			waits VirtualService team/vs: host reviews.other.svc.cluster.local, host reviews.team.svc.cluster.local
			set SV reviews.team.svc.cluster.local; set SE other/se reviews
			waits
			has VS team/vs Reviews reviews.other.svc.cluster.local; SV reviews.team.svc.cluster.local; SE other/se reviews`,
		"wildcards give what they cover": `
			synced
			set VS vs a.example.com:v1
			set SE se *.com
			waits VirtualService default/vs: subset v1 of host a.example.com
			set DR dr *.example.com v1
			waits
			set VS apex example.com
			waits
			set VS deep com
			waits VirtualService default/deep: host com.default.svc.cluster.local
			set SE all *
			waits`,
		"a wildcard is listed as users write it": `
			synced
			set VS one *.example.com:v1
			set VS all *
			waits VirtualService default/one: host *.example.com, subset v1 of host *.example.com; VirtualService default/all: host *`,
		"a subset may come from any namespace": base + `
			set VS vs reviews:v3 @gw
			set DR other/dr reviews.default.svc.cluster.local v3
			waits`,
		"a rule waits for what it delegates to": base + `
			set VS root >leaf
			waits VirtualService default/root: VirtualService default/leaf
			set VS leaf reviews:v9
			waits VirtualService default/root: VirtualService default/leaf; VirtualService default/leaf: subset v9 of host reviews.default.svc.cluster.local
			set DR more reviews v9
			last set DR more reviews v9; set VS leaf reviews:v9; set VS root >leaf
			del VS leaf
			waits VirtualService default/leaf: VirtualService default/root
			del VS root
			last del VirtualService default/leaf; del VirtualService default/root`,
		"rule and subset in one batch do not wait": base + `
			set VS vs reviews:v3 @gw; set DR dr reviews v3
			last set DR dr reviews v3; set VS vs reviews:v3 @gw
			waits`,
		"a rule that did not work before does not wait": `
			set VS vs reviews
			synced
			set VS vs details
			has VS vs details
			waits`,
		"one that waits holds up nobody else": base + `
			set VS new details; set VS other reviews:v2; set SE more more
			last set SE more more; set VS other reviews:v2
			waits VirtualService default/new: host details.default.svc.cluster.local`,
	} {
		t.Run(name, func(t *testing.T) { run(t, script) })
	}
}

func TestRemovalWaitsForReferrers(t *testing.T) {
	for name, script := range map[string]string{
		"a DestinationRule": base + `
			del DR dr
			waits DestinationRule default/dr: VirtualService default/vs
			del VS vs
			last del DestinationRule default/dr; del VirtualService default/vs
			waits`,
		"a subset": base + `
			set DR dr reviews v2
			waits DestinationRule default/dr: VirtualService default/vs
			has SE se reviews ratings; DR dr reviews v1 v2; GW gw; VS vs reviews:v1 @gw
			set VS vs reviews:v2 @gw
			last set DR dr reviews v2; set VS vs reviews:v2 @gw`,
		"a subset nobody needs": base + `
			set DR dr reviews v1
			last set DR dr reviews v1
			waits`,
		"a ServiceEntry, and a host of one": base + `
			set SE se ratings
			waits ServiceEntry default/se: VirtualService default/vs
			del SE se
			waits ServiceEntry default/se: VirtualService default/vs
			set VS vs ratings
			waits ServiceEntry default/se: VirtualService default/vs
			del VS vs
			last del ServiceEntry default/se; del VirtualService default/vs`,
		"a Gateway": base + `
			del GW gw
			waits Gateway default/gw: VirtualService default/vs
			set VS vs reviews:v1
			last del Gateway default/gw; set VS vs reviews:v1`,
		"a registry's service": `
			set SV a.x; set VS vs a.x
			synced
			del SV a.x
			waits Service /a.x: VirtualService default/vs
			del VS vs
			last del SV a.x; del VirtualService default/vs`,
		"a wildcard": `
			set SE wild *.x; set SE one a.x; set VS vs a.x; set VS vt b.c.x; set VS other y
			synced
			del SE wild
			waits ServiceEntry default/wild: VirtualService default/vt
			del SE one
			last del ServiceEntry default/one
			waits ServiceEntry default/wild: VirtualService default/vs, VirtualService default/vt
			set SE more *.c.x
			waits ServiceEntry default/wild: VirtualService default/vs
			del VS vs
			last del ServiceEntry default/wild; del VirtualService default/vs
			waits`,
		"what somebody else gives as well goes at once": base + `
			set DR two reviews v1
			del DR dr
			last del DestinationRule default/dr
			waits`,
		"of two that give the same, one goes": base + `
			set DR two reviews v1
			del DR dr; del DR two
			last del DestinationRule default/two
			waits DestinationRule default/dr: VirtualService default/vs`,
		"a replacement lets it go": base + `
			del DR dr
			set DR renamed reviews v1
			last del DestinationRule default/dr; set DR renamed reviews v1`,
		"a registry's service takes over from a ServiceEntry": base + `
			del SE se
			set SV reviews.default.svc.cluster.local
			last del ServiceEntry default/se; set SV reviews.default.svc.cluster.local`,
		"all at once": base + `
			del DR dr; del SE se; del GW gw; del VS vs
			has
			waits`,
		"in the wrong order": base + `
			del DR dr
			del SE se
			del GW gw
			del VS vs
			last del DestinationRule default/dr; del Gateway default/gw; del ServiceEntry default/se; del VirtualService default/vs
			has`,
	} {
		t.Run(name, func(t *testing.T) { run(t, script) })
	}
}

func TestGraceAndEdits(t *testing.T) {
	for name, script := range map[string]string{
		"after its grace a rule is applied all the same": base + `
			set VS new details
			after 9.9s
			waits VirtualService default/new: host details.default.svc.cluster.local
			after 100ms
			last set VS new details
			waits`,
		"and a removal": base + `
			del DR dr
			after 10s
			last del DestinationRule default/dr
			waits
			set VS vs reviews:v5 @gw
			last set VS vs reviews:v5 @gw`,
		"each has its own grace": base + `
			set VS one one
			after 4s
			set VS two two
			after 6s
			last set VS one one
			after 3.9s
			waits VirtualService default/two: host two.default.svc.cluster.local
			after 100ms
			last set VS two two`,
		"an edit while waiting counts from the first": base + `
			set VS new one
			after 6s
			set VS new two
			waits VirtualService default/new: host two.default.svc.cluster.local
			after 4s
			last set VS new two`,
		"after having gone on, the next wait is a new one": base + `
			set VS new one
			after 6s
			set SE one one
			set VS new two
			after 6s
			waits VirtualService default/new: host two.default.svc.cluster.local
			after 4s
			last set VS new two`,
		"an edit that works goes on at once, and what it wanted before is forgotten": base + `
			set VS new details
			set VS new reviews
			last set VS new reviews
			waits
			set SE details details
			last set SE details details`,
		"taking the edit back ends the wait": base + `
			set VS vs reviews:v9 @gw
			set VS vs reviews:v1 @gw #again
			last set VS vs reviews:v1 @gw #again
			waits`,
		"deleting what waits drops it": base + `
			set VS new details
			del VS new
			waits
			set SE details details
			last set SE details details`,
		"deleting a rule whose newer version waits deletes the older": base + `
			set VS vs reviews:v9 @gw
			del VS vs
			last del VirtualService default/vs
			waits`,
		"a removal taken back": base + `
			del DR dr
			set DR dr reviews v1 v2
			waits
			after 10s
			has SE se reviews ratings; DR dr reviews v1 v2; GW gw; VS vs reviews:v1 @gw`,
		"subset and rule change places, in two batches": base + `
			set DR dr reviews v3
			set VS vs reviews:v3 @gw
			last set DR dr reviews v3; set VS vs reviews:v3 @gw
			waits`,
		"a chain goes as one": base + `
			set DR dr reviews v3
			set VS other reviews:v3
			waits DestinationRule default/dr: VirtualService default/vs; VirtualService default/other: subset v3 of host reviews.default.svc.cluster.local
			del VS vs
			last del VirtualService default/vs; set DR dr reviews v3; set VS other reviews:v3`,
		"what is let through in vain takes along what waited for it": base + `
			set DR dr reviews v3
			after 5s
			set VS other reviews:v3
			after 5s
			last set DR dr reviews v3; set VS other reviews:v3
			waits`,
		"an edit in somebody's way lets it go when it is replaced": base + `
			set DR dr reviews v3
			set VS vs reviews:v3 details @gw
			waits DestinationRule default/dr: VirtualService default/vs; VirtualService default/vs: host details.default.svc.cluster.local, subset v3 of host reviews.default.svc.cluster.local
			set VS vs ratings @gw
			last set DR dr reviews v3; set VS vs ratings @gw`,
		"what cannot go anyway is in nobody's way": base + `
			set VS third reviews:v1 nowhere.x
			set DR dr reviews v3
			set VS vs reviews:v3 @gw
			last set DR dr reviews v3; set VS vs reviews:v3 @gw
			waits VirtualService default/third: host nowhere.x, subset v1 of host reviews.default.svc.cluster.local`,
		"two that go together do so when a third gives way": base + `
			set DR other ratings y; set VS fix ratings:y
			set DR other ratings x
			set VS third reviews:v1 ratings:x
			set DR dr reviews v3
			set VS vs reviews:v3 @gw
			last set DR other ratings y; set VS fix ratings:y
			set VS third ratings
			last set DR dr reviews v3; set VS third ratings; set VS vs reviews:v3 @gw
			waits DestinationRule default/other: VirtualService default/fix`,
		"a rule left broken by a removal in vain no longer waits": base + `
			del DR dr
			after 5s
			set VS vs details @gw
			waits DestinationRule default/dr: VirtualService default/vs; VirtualService default/vs: host details.default.svc.cluster.local
			after 5s
			last del DestinationRule default/dr; set VS vs details @gw
			waits`,
		"a second edit of a rule that works waits, whatever others lack": base + `
			set VS bad nowhere
			after 10s
			set VS vs reviews:v4 @gw
			waits VirtualService default/vs: subset v4 of host reviews.default.svc.cluster.local`,
		"unknown deletions say nothing": base + `
			del VS nobody
			last ` + `
			waits`,
	} {
		t.Run(name, func(t *testing.T) { run(t, script) })
	}
}
