-- What Wireshark lacks for datacenter networks, as a post-dissector: it looks
-- at packets after Wireshark's own dissectors and adds to what they show.
--
-- Trimmed packets: cut down to their headers by a switch, with the lengths in
-- their headers left as they were (UEC 1.0 §4.1; NDP, SIGCOMM 2017, §3.2).
-- Filter: weft.trimmed. Lengths count the frame from its link-layer header, as
-- Wireshark's Length column does.
--
-- RoCEv2 (InfiniBand Architecture, annex A17): the congestion notification
-- packet, which Wireshark 4.0 does not know, and the FECN and BECN bits of the
-- base transport header, which it shows as reserved. Filters: weft.cnp,
-- weft.bth.fecn, weft.bth.becn. The info column of an RNR NAK says so.
--
-- InfiniBand's connection management (chapter 12): messages that Wireshark 4.0
-- does not read (MRA, SIDR_REQ, SIDR_REP), why a REJ refuses, and the flow label and
-- packet rate of a REQ, which it reads a byte too early. Filters: weft.cm.mra,
-- weft.cm.sidr_req, weft.cm.sidr_rep, weft.cm.rej, weft.cm.req. Of the source column
-- of a REQ it makes a LID, which there is none of over Ethernet.
--
-- Congestion notification messages of QCN (IEEE 802.1Q clause 33), which Wireshark
-- does not know. Filter: weft.cnm.
--
-- Credit frames of links with credits, which are weft's own. Filter: weft.credits.
--
-- Packets of other kinds are left alone. Written for Wireshark 4.0 and later:
--   tshark -X lua_script:weft.lua ...
-- or put the file into ~/.local/lib/wireshark/plugins.

local weft = Proto("weft", "Datacenter Network (weft)")

set_plugin_info({
    version = "1.0",
    description = "trimmed packets, congestion notification of RoCEv2 and QCN, connection management, link credits",
    repository = "https://github.com/weftlab/weft",
})

weft.prefs.trimmed_dscp = Pref.uint("Trimmed DSCP", 0,
    "IP packets with this DSCP (1 to 63) have been trimmed, also where their lengths have been adjusted; 0 for none")

local CNP = 0x81
local ROCE_PORT = 4791
local IPV6_HEADER, UDP_HEADER, BTH = 40, 8, 12
local CNP_RESERVED, ICRC = 16, 4

local ACKNOWLEDGE, UD_SEND_ONLY = 0x11, 0x64
local DETH, MAD, MAD_HEADER, CM_CLASS, CM_VERSION = 8, 256, 24, 0x07, 0x02

-- How long the syndrome of an RNR NAK asks to wait, in milliseconds (table 45).
local RNR = 1
local rnr_times = {
    [0] = "655.36", "0.01", "0.02", "0.03", "0.04", "0.06", "0.08", "0.12", "0.16", "0.24", "0.32", "0.48", "0.64", "0.96", "1.28", "1.92",
    "2.56", "3.84", "5.12", "7.68", "10.24", "15.36", "20.48", "30.72", "40.96", "61.44", "81.92", "122.88", "163.84", "245.76", "327.68", "491.52",
}

-- Messages of connection management and what is in them (chapter 12).
local REQ, MRA, REJ, SIDR_REQ, SIDR_REP = 0x10, 0x11, 0x12, 0x17, 0x18
local mra_messages = { [0] = "REQ", [1] = "REP", [2] = "LAP" }
local rej_messages = { [0] = "REQ", [1] = "REP", [2] = "no message" }
local rej_reasons = {
    "no QP available", "no EEC available", "no resources available", "timeout", "unsupported request", "invalid communication ID",
    "invalid communication instance", "invalid service ID", "invalid transport service type", "stale connection", "RDC does not exist",
    "primary remote port GID rejected", "primary remote port LID rejected", "invalid primary SL", "invalid primary traffic class",
    "invalid primary hop limit", "invalid primary packet rate", "alternate remote port GID rejected", "alternate remote port LID rejected",
    "invalid alternate SL", "invalid alternate traffic class", "invalid alternate hop limit", "invalid alternate packet rate",
    "port and CM redirection", "port redirection", "invalid path MTU", "insufficient responder resources", "consumer reject",
    "RNR retry count rejected", "duplicate local communication ID", "invalid class version", "invalid primary flow label",
    "invalid alternate flow label", [35] = "vendor option not supported",
}
local sidr_statuses = {
    [0] = "valid QPN", "service ID not supported", "rejected by the service provider", "no QP available", "redirected",
    "class version not supported",
}
local timeouts = { [0] = "4.096 us" }
for code = 1, 31 do
    timeouts[code] = string.format("%.6g ms", 0.004096 * 2 ^ code)
end

local opcodes = { [CNP] = "Congestion Notification Packet (CNP)" }

local f = {
    trimmed = ProtoField.bool("weft.trimmed", "Trimmed", base.NONE, nil, 0, "Cut down to its headers by a switch"),
    kept = ProtoField.uint32("weft.trimmed.kept", "Kept", base.UNIT_STRING, { " byte", " bytes" }, 0,
        "Length of what is left of the frame"),
    original = ProtoField.uint32("weft.trimmed.original_length", "Original length", base.UNIT_STRING,
        { " byte", " bytes" }, 0, "Length of the frame before it was trimmed, as its IP header says"),
    fecn = ProtoField.bool("weft.bth.fecn", "Forward explicit congestion notification (FECN)", 8, nil, 0x80),
    becn = ProtoField.bool("weft.bth.becn", "Backward explicit congestion notification (BECN)", 8, nil, 0x40),
    cnp = ProtoField.bool("weft.cnp", "Congestion notification packet"),
    opcode = ProtoField.uint8("weft.cnp.opcode", "Opcode", base.HEX, opcodes),
    qp = ProtoField.uint24("weft.cnp.destqp", "Destination queue pair", base.HEX, nil, nil,
        "Queue pair of the sender that is to slow down"),
    psn = ProtoField.uint24("weft.cnp.psn", "Packet sequence number", base.DEC),
    reserved = ProtoField.bytes("weft.cnp.reserved", "Reserved"),
    icrc = ProtoField.uint32("weft.cnp.icrc", "Invariant CRC", base.HEX),

    req = ProtoField.bool("weft.cm.req", "REQ"),
    flow_label = ProtoField.uint24("weft.cm.req.prim_flowlabel", "Primary flow label", base.HEX, nil, 0xfffff0),
    packet_rate = ProtoField.uint8("weft.cm.req.prim_pktrate", "Primary packet rate", base.HEX, nil, 0x3f),
    alt_flow_label = ProtoField.uint24("weft.cm.req.alt_flowlabel", "Alternate flow label", base.HEX, nil, 0xfffff0),
    alt_packet_rate = ProtoField.uint8("weft.cm.req.alt_pktrate", "Alternate packet rate", base.HEX, nil, 0x3f),

    mra = ProtoField.bool("weft.cm.mra", "MRA"),
    mra_local = ProtoField.uint32("weft.cm.mra.localcommid", "Local communication ID", base.HEX),
    mra_remote = ProtoField.uint32("weft.cm.mra.remotecommid", "Remote communication ID", base.HEX),
    mra_message = ProtoField.uint8("weft.cm.mra.message", "Message that has arrived", base.DEC, mra_messages, 0xc0),
    mra_timeout = ProtoField.uint8("weft.cm.mra.timeout", "Service timeout", base.DEC, timeouts, 0xf8,
        "Within which the answer will come"),
    mra_private = ProtoField.bytes("weft.cm.mra.private", "Private data"),

    rej = ProtoField.bool("weft.cm.rej", "REJ"),
    rej_message = ProtoField.uint8("weft.cm.rej.message", "Message refused", base.DEC, rej_messages, 0xc0),
    rej_reason = ProtoField.uint16("weft.cm.rej.reason", "Reason", base.DEC, rej_reasons),

    sidr_req = ProtoField.bool("weft.cm.sidr_req", "SIDR_REQ"),
    sidr_rep = ProtoField.bool("weft.cm.sidr_rep", "SIDR_REP"),
    sidr_request = ProtoField.uint32("weft.cm.sidr.requestid", "Request ID", base.HEX),
    sidr_pkey = ProtoField.uint16("weft.cm.sidr.pkey", "Partition key", base.HEX),
    sidr_service = ProtoField.uint64("weft.cm.sidr.serviceid", "Service ID", base.HEX),
    sidr_status = ProtoField.uint8("weft.cm.sidr.status", "Status", base.DEC, sidr_statuses),
    sidr_qpn = ProtoField.uint24("weft.cm.sidr.qpn", "Queue pair", base.HEX),
    sidr_qkey = ProtoField.uint32("weft.cm.sidr.qkey", "Queue key", base.HEX),
    sidr_private = ProtoField.bytes("weft.cm.sidr.private", "Private data"),
}
weft.fields = f

local ip = {
    { header = Field.new("ip"), from = Field.new("ip.src"), length = Field.new("ip.len"), dscp = Field.new("ip.dsfield.dscp"), more = 0 },
    { header = Field.new("ipv6"), from = Field.new("ipv6.src"), length = Field.new("ipv6.plen"), dscp = Field.new("ipv6.tclass.dscp"), more = IPV6_HEADER },
}
local udp, udp_port = Field.new("udp"), Field.new("udp.dstport")

-- outermost gives the first IP header of a frame: where it begins, how long it
-- says that the packet is (0 when it does not say), its DSCP and its source.
local function outermost()
    local found
    for _, version in ipairs(ip) do
        local header, length, dscp = version.header(), version.length(), version.dscp()
        if header and length and dscp and (not found or header.offset < found.offset) then
            local said = length.value
            if said > 0 then
                said = said + version.more
            end
            found = { offset = header.offset, length = said, dscp = dscp.value, from = version.from() }
        end
    end
    return found
end

-- rewrite replaces a pattern in the info column. A part of the column may be
-- fenced off, and would stay and be written again.
local function rewrite(info, pattern, by)
    local text, count = tostring(info):gsub(pattern, by)
    if count > 0 then
        info:clear_fence()
        info:set(text)
    end
end

-- note adds a text to the info column.
local function note(info, text)
    local gap = tostring(info):find("%s$") and "" or " "
    info:append(gap .. "[" .. text .. "]")
end

local function show_trimmed(tvb, pinfo, tree, packet)
    local kept, original = tvb:reported_len(), packet.offset + packet.length
    -- A length of 0 is a super-packet caught in a host, or a jumbogram.
    local cut = packet.length > 0 and original > kept
    local coloured = weft.prefs.trimmed_dscp > 0 and packet.dscp == weft.prefs.trimmed_dscp
    if not cut and not coloured then
        return
    end
    local text = string.format("Trimmed: %d of %d bytes", kept, original)
    if not cut then
        text = string.format("Trimmed: %d bytes, original length unknown", kept)
    end
    local item = tree:add(weft, tvb(packet.offset), text)
    item:add(f.trimmed, true):set_generated()
    item:add(f.kept, kept):set_generated()
    if cut then
        item:add(f.original, original):set_generated()
    end
    -- What Wireshark makes of the lengths of a packet that is cut short.
    rewrite(pinfo.cols.info, "%s*%[Malformed Packet[^%]]*%]", "")
    rewrite(pinfo.cols.info, "%s*%[BAD UDP LENGTH[^%]]*%]", "")
    note(pinfo.cols.info, text)
end

-- bth_of gives where the base transport header of a frame's RoCEv2 packet
-- begins. A reassembled datagram has its bytes elsewhere, and begins at 0 there.
local function bth_of(packet)
    local ports = { udp_port() }
    for i, datagram in ipairs({ udp() }) do
        if ports[i] and ports[i].value == ROCE_PORT and datagram.offset > packet.offset then
            return datagram.offset + UDP_HEADER
        end
    end
end

-- show_rnr says in the info column that an acknowledgement is an RNR NAK, and how
-- long it asks to wait. Other NAKs are told there from ACKs.
local function show_rnr(tvb, pinfo, at)
    local syndrome = tvb(at + BTH, 1)
    if syndrome:bitfield(1, 2) == RNR then
        note(pinfo.cols.info, string.format("RNR NAK: %s ms", rnr_times[syndrome:bitfield(3, 5)]))
    end
end

-- show_path shows what of a path is read a byte too early.
local function show_path(tvb, item, path, flow_label, packet_rate)
    item:add(flow_label, tvb(path + 36, 3))
    item:add(packet_rate, tvb(path + 39, 1))
end

-- sources keeps the addresses that packets were given alive.
local sources = {}

-- How each message of connection management that needs it is shown. m is where it
-- begins, behind the header of the datagram. They may give a text for the info
-- column.
local shows = {
    [REQ] = function(tvb, item, m, pinfo, packet)
        item:add(f.req, true):set_generated()
        show_path(tvb, item, m + 52, f.flow_label, f.packet_rate)
        if tvb(m + 96, 4):uint() ~= 0 then -- the LIDs of an alternate path
            show_path(tvb, item, m + 96, f.alt_flow_label, f.alt_packet_rate)
        end
        if tostring(pinfo.src):find("^LID") then
            local name = tostring(packet.from.value)
            sources[name] = sources[name] or packet.from.value
            pinfo.src = sources[name]
        end
    end,
    [MRA] = function(tvb, item, m)
        item:add(f.mra, true):set_generated()
        item:add(f.mra_local, tvb(m, 4))
        item:add(f.mra_remote, tvb(m + 4, 4))
        item:add(f.mra_message, tvb(m + 8, 1))
        item:add(f.mra_timeout, tvb(m + 9, 1))
        item:add(f.mra_private, tvb(m + 10, 222))
        local message, timeout = tvb(m + 8, 1):bitfield(0, 2), tvb(m + 9, 1):bitfield(0, 5)
        return string.format("%s within %s", mra_messages[message] or "reserved", timeouts[timeout])
    end,
    [REJ] = function(tvb, item, m)
        item:add(f.rej, true):set_generated()
        item:add(f.rej_message, tvb(m + 8, 1))
        item:add(f.rej_reason, tvb(m + 10, 2))
        local reason = tvb(m + 10, 2):uint()
        return rej_reasons[reason] or string.format("reason %d", reason)
    end,
    [SIDR_REQ] = function(tvb, item, m)
        item:add(f.sidr_req, true):set_generated()
        item:add(f.sidr_request, tvb(m, 4))
        item:add(f.sidr_pkey, tvb(m + 4, 2))
        item:add(f.sidr_service, tvb(m + 8, 8))
        item:add(f.sidr_private, tvb(m + 16, 216))
    end,
    [SIDR_REP] = function(tvb, item, m)
        item:add(f.sidr_rep, true):set_generated()
        item:add(f.sidr_request, tvb(m, 4))
        item:add(f.sidr_status, tvb(m + 4, 1))
        item:add(f.sidr_qpn, tvb(m + 8, 3))
        item:add(f.sidr_service, tvb(m + 12, 8))
        item:add(f.sidr_qkey, tvb(m + 20, 4))
        item:add(f.sidr_private, tvb(m + 96, 136))
        local status = tvb(m + 4, 1):uint()
        if status == 0 then
            return string.format("QP=0x%06x", tvb(m + 8, 3):uint())
        end
        return sidr_statuses[status] or string.format("status %d", status)
    end,
}

-- show_cm shows a message of connection management, which begins at mad.
local function show_cm(tvb, pinfo, tree, mad, packet)
    if tvb(mad, 1):uint() ~= 1 or tvb(mad + 1, 1):uint() ~= CM_CLASS or tvb(mad + 2, 1):uint() ~= CM_VERSION then
        return
    end
    local show = shows[tvb(mad + 16, 2):uint()]
    if not show then
        return
    end
    local m = mad + MAD_HEADER
    local text = show(tvb, tree:add(weft, tvb(m, MAD - MAD_HEADER), "Connection management"), m, pinfo, packet)
    if text then
        note(pinfo.cols.info, text)
    end
end

local function show_roce(tvb, pinfo, tree, at, packet)
    local there = tvb:captured_len() - at
    if there < 5 then -- the bits are in its fifth byte
        return
    end
    local opcode = tvb(at, 1):uint()
    local text = "RoCEv2 congestion bits"
    if opcode == CNP then
        text = "RoCEv2 congestion notification packet (CNP)"
    end
    local item = tree:add(weft, tvb(at, math.min(there, BTH)), text)
    item:add(f.fecn, tvb(at + 4, 1))
    item:add(f.becn, tvb(at + 4, 1))
    if opcode == ACKNOWLEDGE and there > BTH then
        show_rnr(tvb, pinfo, at)
    elseif opcode == UD_SEND_ONLY and there >= BTH + DETH + MAD and tvb(at + 5, 3):uint() == 1 then
        show_cm(tvb, pinfo, tree, at + BTH + DETH, packet)
    end
    if opcode ~= CNP then
        return
    end
    item:add(f.cnp, true):set_generated()
    item:add(f.opcode, tvb(at, 1))
    if there < BTH then
        return
    end
    item:add(f.qp, tvb(at + 5, 3))
    item:add(f.psn, tvb(at + 9, 3))
    if there >= BTH + CNP_RESERVED + ICRC then
        item:set_len(BTH + CNP_RESERVED + ICRC)
        item:add(f.reserved, tvb(at + BTH, CNP_RESERVED))
        item:add(f.icrc, tvb(at + BTH + CNP_RESERVED, ICRC))
    end
    -- A Wireshark that knows the opcode has said so itself.
    rewrite(pinfo.cols.info, "Unknown OpCode%s*", "CNP ")
end

function weft.dissector(tvb, pinfo, tree)
    local packet = outermost()
    if not packet then
        return
    end
    local at = bth_of(packet)
    if at then
        show_roce(tvb, pinfo, tree, at, packet)
    end
    show_trimmed(tvb, pinfo, tree, packet)
end

register_postdissector(weft)

-- Congestion notification of layer 2, a dissector of its ethertype.

local CNM_TYPE = 0x22e7
local CNM_PDU = 24
local QUEUE_UNIT = 64

local cnm = Proto("weft.cnm", "Congestion Notification Message")
local q = {
    version = ProtoField.uint8("weft.cnm.version", "Version", base.DEC, nil, 0xf0),
    feedback = ProtoField.uint8("weft.cnm.feedback", "Quantized feedback", base.DEC, nil, 0x3f),
    cpid = ProtoField.uint64("weft.cnm.cpid", "Congestion point", base.HEX),
    offset = ProtoField.int32("weft.cnm.qoffset", "Below the set point", base.DEC, nil, nil, "Bytes by which the queue is shorter than it should be"),
    delta = ProtoField.int32("weft.cnm.qdelta", "Growth", base.DEC, nil, nil, "Bytes by which the queue has grown since the last sample"),
    priority = ProtoField.uint16("weft.cnm.priority", "Encapsulated priority", base.DEC, nil, 0xe000),
    da = ProtoField.ether("weft.cnm.da", "Encapsulated destination"),
    length = ProtoField.uint16("weft.cnm.length", "Encapsulated MSDU length", base.DEC),
    msdu = ProtoField.bytes("weft.cnm.msdu", "Encapsulated MSDU"),
}
cnm.fields = { q.version, q.feedback, q.cpid, q.offset, q.delta, q.priority, q.da, q.length, q.msdu }

function cnm.dissector(tvb, pinfo, tree)
    if tvb:captured_len() < CNM_PDU then
        return 0
    end
    pinfo.cols.protocol = "CNM"
    local feedback, length = tvb(1, 1):bitfield(2, 6), tvb(22, 2):uint()
    local there = math.min(length, tvb:captured_len() - CNM_PDU)
    pinfo.cols.info = string.format("Congestion notification, feedback %d", feedback)
    local item = tree:add(cnm, tvb(0, CNM_PDU + there))
    item:add(q.version, tvb(0, 1))
    item:add(q.feedback, tvb(1, 1))
    item:add(q.cpid, tvb(2, 8))
    item:add(q.offset, tvb(10, 2), tvb(10, 2):int() * QUEUE_UNIT)
    item:add(q.delta, tvb(12, 2), tvb(12, 2):int() * QUEUE_UNIT)
    item:add(q.priority, tvb(14, 2))
    item:add(q.da, tvb(16, 6))
    item:add(q.length, tvb(22, 2))
    if there > 0 then
        item:add(q.msdu, tvb(CNM_PDU, there))
    end
    return CNM_PDU + there
end

DissectorTable.get("ethertype"):add(CNM_TYPE, cnm)

-- Credit frames of links: MAC control frames of an organization. Other MAC control frames
-- go on to Wireshark's own dissector.

local MAC_CONTROL = 0x8808
local EXTENSION, CREDIT_CID, CREDIT_TYPE = 0xfffe, 0x7a57ef, 1
local CREDIT_HEADER, CREDIT_CLASS = 8, 4
local BLOCK = 64

local credits = Proto("weft.credits", "Link Credits")
local c = {
    organization = ProtoField.uint24("weft.credits.cid", "Company ID", base.HEX),
    kind = ProtoField.uint8("weft.credits.type", "Type", base.DEC),
    sends = ProtoField.uint8("weft.credits.sends", "Classes with FCTBS", base.HEX),
    grants = ProtoField.uint8("weft.credits.grants", "Classes with FCCL", base.HEX),
    fctbs = ProtoField.uint16("weft.credits.fctbs", "Total blocks sent (FCTBS)", base.DEC, nil, nil, "Blocks of 64 bytes that the sender of this frame has sent, modulo 65536"),
    fccl = ProtoField.uint16("weft.credits.fccl", "Credit limit (FCCL)", base.DEC, nil, nil, "Blocks of 64 bytes up to which the receiver of this frame may send, modulo 65536"),
}
credits.fields = { c.organization, c.kind, c.sends, c.grants, c.fctbs, c.fccl }

local mac_control = DissectorTable.get("ethertype"):get_dissector(MAC_CONTROL)

function credits.dissector(tvb, pinfo, tree)
    local whole = CREDIT_HEADER + 8 * CREDIT_CLASS
    if tvb:captured_len() < whole or tvb(0, 2):uint() ~= EXTENSION or tvb(2, 3):uint() ~= CREDIT_CID or tvb(5, 1):uint() ~= CREDIT_TYPE then
        if mac_control then
            return mac_control:call(tvb, pinfo, tree)
        end
        return 0
    end
    pinfo.cols.protocol = "Credits"
    local item = tree:add(credits, tvb(0, whole))
    item:add(c.organization, tvb(2, 3))
    item:add(c.kind, tvb(5, 1))
    item:add(c.sends, tvb(6, 1))
    item:add(c.grants, tvb(7, 1))
    local said = {}
    for class = 0, 7 do
        local at = CREDIT_HEADER + class * CREDIT_CLASS
        local sends, grants = tvb(6, 1):bitfield(7 - class), tvb(7, 1):bitfield(7 - class)
        if sends + grants > 0 then
            local text = "class " .. class .. ":"
            local sub = item:add(tvb(at, CREDIT_CLASS), "Class " .. class)
            if sends == 1 then
                sub:add(c.fctbs, tvb(at, 2))
                text = text .. string.format(" sent %d", tvb(at, 2):uint())
            end
            if grants == 1 then
                sub:add(c.fccl, tvb(at + 2, 2))
                text = text .. string.format(" may send to %d", tvb(at + 2, 2):uint())
            end
            table.insert(said, text)
        end
    end
    pinfo.cols.info = string.format("Credits in blocks of %d B, %s", BLOCK, table.concat(said, "; "))
    return whole
end

DissectorTable.get("ethertype"):add(MAC_CONTROL, credits)
