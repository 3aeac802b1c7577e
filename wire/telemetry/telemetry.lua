-- In-band telemetry (INT) in front of a RoCEv2 packet, behind a UDP port of its own: a
-- header, and 8 bytes for each hop that there is room for, as HPCC's (SIGCOMM 2019, §4.1).
-- What follows is shown as RoCEv2. Filters: weft_int, weft_int.hop.queue and others.
do
    local int = Proto("weft_int", "In-band telemetry (weft)")
    local PORT, ROCE_PORT, HEADER, HOP = 54791, 4791, 4, 8
    local rates = {
        [0] = "unknown", "10 Mb/s", "100 Mb/s", "1 Gb/s", "2.5 Gb/s", "5 Gb/s", "10 Gb/s", "20 Gb/s",
        "25 Gb/s", "40 Gb/s", "50 Gb/s", "100 Gb/s", "200 Gb/s", "400 Gb/s", "800 Gb/s", "1600 Gb/s",
    }
    local f = {
        room = ProtoField.uint8("weft_int.room", "Room", base.DEC, nil, 0xf0, "Hops that there is room for"),
        count = ProtoField.uint8("weft_int.count", "Count", base.DEC, nil, 0x0f, "Hops that are written"),
        echo = ProtoField.bool("weft_int.echo", "Echo", 8, nil, 0x80, "On its way back to the sender"),
        path = ProtoField.uint16("weft_int.path", "Path", base.HEX, nil, nil, "Exclusive or of the ports that wrote"),
        rate = ProtoField.uint8("weft_int.hop.rate", "Rate", base.DEC, rates, 0xf0),
        time = ProtoField.uint24("weft_int.hop.time", "Time (ns, modulo 2^24)", base.DEC),
        sent = ProtoField.uint64("weft_int.hop.sent", "Bytes sent (modulo 2^27)", base.DEC),
        queue = ProtoField.uint32("weft_int.hop.queue", "Queue", base.UNIT_STRING, { " byte", " bytes" }),
    }
    int.fields = f

    function int.dissector(tvb, pinfo, tree)
        if tvb:captured_len() < HEADER then
            return 0
        end
        local room, count = tvb(0, 1):bitfield(0, 4), tvb(0, 1):bitfield(4, 4)
        local length = HEADER + room * HOP
        if count > room or tvb:captured_len() < length then
            return 0
        end
        local item = tree:add(int, tvb(0, length), string.format("In-band telemetry: %d of %d hops", count, room))
        item:add(f.room, tvb(0, 1))
        item:add(f.count, tvb(0, 1))
        item:add(f.echo, tvb(1, 1))
        item:add(f.path, tvb(2, 2))
        local longest = 0
        for i = 0, count - 1 do
            local at = HEADER + i * HOP
            local queue = tvb(at + 6, 2):uint() * 80
            longest = math.max(longest, queue)
            local hop = item:add(int, tvb(at, HOP), string.format("Hop %d: queue %d bytes", i + 1, queue))
            hop:add(f.rate, tvb(at, 1))
            hop:add(f.time, tvb(at, 4), tvb(at, 4):bitfield(4, 24))
            hop:add(f.sent, tvb(at + 3, 3), UInt64(tvb(at + 3, 3):bitfield(4, 20) * 128))
            hop:add(f.queue, tvb(at + 6, 2), queue)
        end
        if tvb:captured_len() > length then
            local port = pinfo.dst_port
            pinfo.dst_port = ROCE_PORT
            DissectorTable.get("udp.port"):try(ROCE_PORT, tvb(length):tvb(), pinfo, tree)
            pinfo.dst_port = port
        end
        pinfo.cols.info:append(string.format(" [INT: %d hops, queue %d B]", count, longest))
        return tvb:captured_len()
    end

    DissectorTable.get("udp.port"):add(PORT, int)
end
