package uverbs

import (
	"encoding/binary"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// Structs and operations of abi.h and of abi.go are compared: sizes, offsets and numbers, as a C
// compiler sees them.
func TestABI_IsTheSameInCAndGo(t *testing.T) {
	if _, err := exec.LookPath("gcc"); err != nil {
		t.Skip("SKIPPED: this test needs gcc: run scripts/test.sh, which installs it")
	}
	messages := map[string]any{
		"handle": handleMsg{}, "hello": helloMsg{}, "device": deviceMsg{}, "devices_answer": devicesAnswer{}, "device_answer": deviceAnswer{},
		"port_answer": portAnswer{}, "query_gid": queryGID{}, "gid_answer": gidAnswer{}, "clock_answer": clockAnswer{}, "reg_mr": regMR{}, "mr_answer": mrAnswer{},
		"alloc_mw": allocMW{}, "locate": locateMsg{}, "locate_answer": locateAnswer{}, "create_cq": createCQ{}, "cq_answer": cqAnswer{}, "modify_cq": modifyCQ{}, "create_srq": createSRQ{},
		"srq_answer": srqAnswer{}, "modify_srq": modifySRQ{}, "srq_attr": srqAttr{}, "create_qp": createQP{}, "qp_answer": qpAnswer{},
		"ah_attr": ahAttr{}, "qp_attr": qpAttr{}, "rate_limit": rateLimitMsg{}, "open_xrcd": openXRCDMsg{}, "open_qp": openQPMsg{}, "create_ah": createAH{}, "mcast": mcastMsg{}, "cm_create_id": cmCreateID{},
		"endpoint": endpoint{}, "cm_address": cmAddress{}, "cm_resolve": cmResolve{}, "cm_listen": cmListen{}, "cm_param": cmParam{},
		"cm_connect": cmConnect{}, "cm_event": cmEvent{}, "cm_qp_attr": cmQPAttr{}, "cm_option": cmOption{}, "cm_join": cmJoin{},
	}
	want := map[string]int{
		"sizeof(struct weft_request)": headLen, "sizeof(struct weft_answer)": headLen, "sizeof(struct weft_send)": sendLen,
		"sizeof(struct weft_sge)": sgeLen, "sizeof(struct weft_recv)": recvLen, "sizeof(struct weft_cqe)": cqeLen,
		"sizeof(struct weft_doorbell)": doorbellBytes, "offsetof(struct weft_doorbell, any)": anyOffset,
		"offsetof(struct weft_doorbell, dirty)": dirtyOffset, "offsetof(struct weft_queue, send)": sendIndex, "offsetof(struct weft_queue, recv)": recvIndex,
		"offsetof(struct weft_cq, made)": cqMade, "offsetof(struct weft_cq, solicited)": cqSolicit, "offsetof(struct weft_cq, told)": cqTold, "offsetof(struct weft_cq, epoch)": cqEpoch, "offsetof(struct weft_cq, taken)": cqTaken, "offsetof(struct weft_cq, arm)": cqArm,
		"offsetof(struct weft_cq, event)": cqEvent, "offsetof(struct weft_send, sges)": 52, "offsetof(struct weft_send, inlined)": 56,
		"offsetof(struct weft_send, compare_add)": 24, "offsetof(struct weft_send, ah)": 40, "offsetof(struct weft_recv, sges)": 4,
		"offsetof(struct weft_cqe, dropped)": 48, "offsetof(struct weft_cqe, srq_num)": 52, "offsetof(struct weft_send, remote_srqn)": 60, "offsetof(struct weft_cqe, flags)": 36, "offsetof(struct weft_cqe, time)": 56,
		"WEFT_ABI_VERSION": abiVersion, "WEFT_MAX_MESSAGE": maxMessage, "WEFT_MAX_DEVICES": maxDevices, "WEFT_PAGE": pageSize,
		"WEFT_MAX_QUEUES": maxQueues, "WEFT_PRIVATE_DATA": privateLen, "WEFT_ARM_ANY": armAny, "WEFT_ARM_SOLICITED": armSolicited,
		"WEFT_DESTROY_AH": int(opDestroyAH), "WEFT_DETACH_MCAST": int(opDetachMcast), "WEFT_NOTIFY_CQ": int(opNotifyCQ), "WEFT_LOCATE": int(opLocate), "WEFT_SET_RATE_LIMIT": int(opSetRateLimit), "WEFT_CREATE_QP": int(opCreateQP), "WEFT_OPEN_QP": int(opOpenQP), "WEFT_XRCD_CREATE": flagCreate, "WEFT_XRCD_EXCLUSIVE": flagExclusive,
		"WEFT_CM_CREATE_CHANNEL": int(opCMCreateChannel), "WEFT_CM_QP_ATTR": int(opCMQPAttr), "WEFT_CM_LEAVE": int(opCMLeave),
		"WEFT_CM_TOS": int(optionTOS), "WEFT_CM_ACK_TIMEOUT": int(optionAckTimeout),
	}
	for name, m := range messages {
		want["sizeof(struct weft_"+name+")"] = binary.Size(m)
		if n := binary.Size(m); n > maxMessage-headLen {
			t.Errorf("%s has %d bytes", name, n)
		}
	}
	header, err := os.ReadFile("../verbs/abi.h")
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range regexp.MustCompile(`(?m)^struct weft_(\w+) \{`).FindAllStringSubmatch(string(header), -1) {
		if _, ok := want["sizeof(struct weft_"+s[1]+")"]; !ok && s[1] != "queue" && s[1] != "cq" && s[1] != "async" {
			t.Errorf("struct weft_%s of abi.h is not compared", s[1])
		}
	}
	for name, got := range compute(t, want) {
		if got != want[name] {
			t.Errorf("%s is %d in C and %d in Go", name, got, want[name])
		}
	}
}

// compute evaluates expressions with a C compiler.
func compute(t *testing.T, of map[string]int) map[string]int {
	t.Helper()
	var source strings.Builder
	source.WriteString("#include <stdio.h>\n#include <stddef.h>\n#include \"abi.h\"\nint main(void) {\n")
	for name := range of {
		fmt.Fprintf(&source, "printf(\"%%s=%%d\\n\", %q, (int)(%s));\n", name, name)
	}
	source.WriteString("return 0; }\n")
	dir := t.TempDir()
	file := filepath.Join(dir, "abi.c")
	if err := os.WriteFile(file, []byte(source.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	// Padding by the compiler would be an error.
	if out, err := exec.Command("gcc", "-Wpadded", "-Werror", "-I../verbs", "-o", filepath.Join(dir, "abi"), file).CombinedOutput(); err != nil {
		t.Fatalf("gcc: %v\n%s", err, out)
	}
	out, err := exec.Command(filepath.Join(dir, "abi")).Output()
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]int{}
	for line := range strings.Lines(string(out)) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), "=")
		if got[name], err = strconv.Atoi(value); err != nil {
			t.Fatal(err)
		}
	}
	return got
}
