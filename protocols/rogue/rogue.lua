-- RoGUE (Le et al., SoCC 2018): messages between the layers of two hosts, datagrams of
-- RoCEv2 whose queue key is "RoGU". Filter: rogue. Echoes of UC are immediate data of empty
-- WRITEs like any other.
do
    local rogue = Proto("rogue", "RoGUE")
    local kinds = { "resync", "resync reply", "resync done", "READ limit", "hello", "hello reply" }
    local f = {
        version = ProtoField.uint8("rogue.version", "Version", base.DEC),
        kind = ProtoField.uint8("rogue.kind", "Kind", base.DEC, kinds),
        from = ProtoField.uint24("rogue.from", "Queue pair of the sender", base.HEX),
        to = ProtoField.uint24("rogue.to", "Queue pair of the receiver", base.HEX),
        epoch = ProtoField.uint32("rogue.epoch", "Changes of the connection", base.DEC),
        nonce = ProtoField.uint32("rogue.nonce", "Number of the hello", base.HEX),
        other = ProtoField.uint24("rogue.other", "Queue pair that the sender goes on with", base.HEX),
        psn = ProtoField.uint24("rogue.psn", "First packet sequence number", base.DEC),
        received = ProtoField.uint32("rogue.received", "Messages received", base.DEC),
        echoes = ProtoField.uint24("rogue.echoes", "Queue pair of echoes", base.HEX),
        limit = ProtoField.uint64("rogue.limit", "Rate limit (kb/s)", base.DEC),
    }
    rogue.fields = f
    local UD_SEND_ONLY, QKEY, HEADERS, MESSAGE, ROCE_PORT = 0x64, 0x526f4755, 20, 36, 4791
    local port, payload = Field.new("udp.dstport"), Field.new("udp.payload")

    local function show(b, pinfo, root)
        local kind = b(1, 1):uint()
        local tree = root:add(rogue, b())
        tree:add(f.version, b(0, 1))
        tree:add(f.kind, b(1, 1))
        tree:add(f.from, b(5, 3))
        tree:add(f.to, b(9, 3))
        local info = string.format("RoGUE %s QP=0x%06x to QP=0x%06x", kinds[kind], b(5, 3):uint(), b(9, 3):uint())
        if kind == 4 then
            tree:add(f.limit, b(28, 8))
            info = info .. string.format(" limit=%s kb/s", tostring(b(28, 8):uint64()))
        else
            tree:add(kind >= 5 and f.nonce or f.epoch, b(12, 4))
            if kind ~= 3 then
                tree:add(f.other, b(17, 3))
                tree:add(f.psn, b(21, 3))
                if kind >= 5 then
                    tree:add(f.echoes, b(25, 3))
                else
                    tree:add(f.received, b(24, 4))
                end
                info = info .. string.format(" other=0x%06x PSN=%d", b(17, 3):uint(), b(21, 3):uint())
            end
        end
        pinfo.cols.protocol = "RoGUE"
        pinfo.cols.info = info
    end

    function rogue.dissector(_, pinfo, root)
        local to, bytes = port(), payload()
        if to == nil or bytes == nil or to.value ~= ROCE_PORT then
            return
        end
        local b = bytes.range:tvb()
        if b:len() < HEADERS + MESSAGE or b(0, 1):uint() ~= UD_SEND_ONLY or b(12, 4):uint() ~= QKEY then
            return
        end
        local m = b(HEADERS, MESSAGE):tvb()
        if m(0, 1):uint() == 1 and kinds[m(1, 1):uint()] ~= nil then
            show(m, pinfo, root)
        end
    end

    register_postdissector(rogue)
end
