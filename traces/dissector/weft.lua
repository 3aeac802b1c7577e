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
-- weft.bth.fecn, weft.bth.becn.
--
-- Packets of other kinds are left alone. Written for Wireshark 4.0 and later:
--   tshark -X lua_script:weft.lua ...
-- or put the file into ~/.local/lib/wireshark/plugins.

local weft = Proto("weft", "Datacenter Network (weft)")

set_plugin_info({
    version = "1.0",
    description = "trimmed packets and RoCEv2 congestion notification",
    repository = "https://github.com/weftlab/weft",
})

weft.prefs.trimmed_dscp = Pref.uint("Trimmed DSCP", 0,
    "IP packets with this DSCP (1 to 63) have been trimmed, also where their lengths have been adjusted; 0 for none")

local CNP = 0x81
local ROCE_PORT = 4791
local IPV6_HEADER, UDP_HEADER, BTH = 40, 8, 12
local CNP_RESERVED, ICRC = 16, 4

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
}
weft.fields = f

local ip = {
    { header = Field.new("ip"), length = Field.new("ip.len"), dscp = Field.new("ip.dsfield.dscp"), more = 0 },
    { header = Field.new("ipv6"), length = Field.new("ipv6.plen"), dscp = Field.new("ipv6.tclass.dscp"), more = IPV6_HEADER },
}
local udp, udp_port = Field.new("udp"), Field.new("udp.dstport")

-- outermost gives the first IP header of a frame: where it begins, how long it
-- says that the packet is (0 when it does not say), and its DSCP.
local function outermost()
    local found
    for _, version in ipairs(ip) do
        local header, length, dscp = version.header(), version.length(), version.dscp()
        if header and length and dscp and (not found or header.offset < found.offset) then
            local said = length.value
            if said > 0 then
                said = said + version.more
            end
            found = { offset = header.offset, length = said, dscp = dscp.value }
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
    pinfo.cols.info:append(" [" .. text .. "]")
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

local function show_roce(tvb, pinfo, tree, at)
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
        show_roce(tvb, pinfo, tree, at)
    end
    show_trimmed(tvb, pinfo, tree, packet)
end

register_postdissector(weft)
